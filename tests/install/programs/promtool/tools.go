//go:build tools

// Package promtool pins the program promtool, so that go.sum covers everything the build needs.
// It is never compiled itself.
package promtool

import (
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
