"""A seeded run of faults against the real control plane, with invariants checked all along."""
