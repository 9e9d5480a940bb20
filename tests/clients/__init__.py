"""Real clients against a real control plane: ``./run test-clients``."""
