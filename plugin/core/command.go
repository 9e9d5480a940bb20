package core

import (
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the metrics that kube-scheduler has
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// Main is kube-scheduler's, with the plugin. It returns the exit status.
func Main() int {
	return cli.Run(app.NewSchedulerCommand(app.WithPlugin(Name, New)))
}
