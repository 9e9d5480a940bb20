"""The extender and kube-scheduler's own ways to preempt, on one real control plane."""
