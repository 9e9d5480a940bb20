//go:build tools

// Package kustomize pins the program kustomize, so that go.sum covers everything the build needs.
// It is never compiled itself.
package kustomize

import (
	_ "sigs.k8s.io/kustomize/kustomize/v5"
)
