//go:build tools

// Package helm pins the program helm, so that go.sum covers everything the build needs.
// It is never compiled itself.
package helm

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
