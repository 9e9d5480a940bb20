"""A small cluster in one process: API server subset, kubelets, Jobs and a scheduler loop.

It is a demonstration and a fast test double. What it leaves out is said where
it is left out; what matters is also tested on a real control plane.
"""
