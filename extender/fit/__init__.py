"""kube-scheduler's filters as pure functions, and a working view of the cluster to ask them.

One file per in-tree plugin, named as the plugin. The rules follow kube-scheduler
1.36 and 1.37 with their default feature gates (pkg/scheduler/framework/plugins);
tests/fit/test_differential.py compares them with the real scheduler.

Every ``why_not`` returns None when the node is fine, else one sentence for a
person that begins with the plugin's name.
"""
