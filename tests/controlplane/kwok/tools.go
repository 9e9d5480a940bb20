//go:build tools

// Package kwok pins kwok, which plays the kubelets of the test clusters. It has a
// module of its own so that its dependencies cannot move those of Kubernetes.
package kwok

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
