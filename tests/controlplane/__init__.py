"""A real Kubernetes control plane as a test bed: build it, run it, talk to it."""
