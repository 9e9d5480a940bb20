"""All-or-nothing gang preemption beside an unmodified kube-scheduler."""

__version__ = "0.1.0"
