// Command verifier asks the filters of kube-scheduler 1.37 whether a plan would hold.
package main

import (
	"context"
	"os"

	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"podgroup-extender.io/plugin/core/verifier"
)

func main() {
	os.Exit(verifier.Main(verifier.Minor{
		Cache: func(ctx context.Context) cache.Cache { return cache.New(ctx, nil, false, false) },
		Informers: func(client clientset.Interface) informers.SharedInformerFactory {
			return scheduler.NewInformerFactory(client, 0, nil)
		},
		TaintRules: func(options *tracker.Options, factory informers.SharedInformerFactory) {
			options.TaintInformer = factory.Resource().V1().DeviceTaintRules()
		},
	}, nil))
}
