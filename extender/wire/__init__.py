"""The scheduler extender's JSON (k8s.io/kube-scheduler/extender/v1).

The only room that knows the wire's names. Go declares them without JSON tags,
so they are capitalised going out and any letter case is taken coming in. The
Pod and Node objects inside are ordinary Kubernetes JSON.
"""
