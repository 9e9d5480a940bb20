//go:build tools

// Package kueue pins the manager of Kueue, so that go.sum covers everything the build needs.
// It is never compiled itself.
package kueue

import (
	_ "sigs.k8s.io/kueue/cmd/kueue"
)
