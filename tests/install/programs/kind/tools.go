//go:build tools

// Package kind pins the program kind, so that go.sum covers everything the build needs.
// It is never compiled itself.
package kind

import (
	_ "sigs.k8s.io/kind"
)
