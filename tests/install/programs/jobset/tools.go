//go:build tools

// Package jobset pins the manager of JobSet, so that go.sum covers everything the build needs.
// It is never compiled itself.
package jobset

import (
	_ "sigs.k8s.io/jobset"
)
