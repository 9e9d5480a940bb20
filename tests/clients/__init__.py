"""Real clients and controllers against a real control plane: ``./run test-clients``."""
