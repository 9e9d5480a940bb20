"""Observe mode: what would be done, beside what kube-scheduler did. Nothing here can write."""
