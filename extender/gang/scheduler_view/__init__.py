"""What kube-scheduler was seen to do: nodes that it named, pods that it may be binding."""
