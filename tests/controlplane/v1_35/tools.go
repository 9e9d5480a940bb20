//go:build tools

// Package controlplane pins the programs of a real Kubernetes control plane, so
// that go.sum covers everything the build needs. It is never compiled itself.
package controlplane

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
)
