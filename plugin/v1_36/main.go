// Command kube-scheduler is that of Kubernetes 1.36 with podgroup-extender's plugin.
package main

import (
	"os"

	"podgroup-extender.io/plugin/core"
)

func main() {
	os.Exit(core.Main())
}
