package core

import (
	"context"
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"

	"podgroup-extender.io/plugin/core/mirror"
	"podgroup-extender.io/plugin/core/pb"
)

const knockPause = time.Second

// knock asks the extender something harmless while pods wait for it to be heard. Of several replicas
// the one that a kube-scheduler asks takes the lease, and only then tells of seats; an open stream is no
// question, because kube-schedulers that stand by have one too.
func knock(ctx context.Context, extender pb.ExtenderServiceClient, view func() mirror.View, waits func() *v1.Pod, timeout time.Duration) {
	ticker := time.NewTicker(knockPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		pod := unheard(view, waits)
		if pod == nil {
			continue
		}
		document, err := json.Marshal(pod)
		if err != nil {
			continue
		}
		call, cancel := context.WithTimeout(ctx, timeout)
		// What comes back does not matter: that it leads is told by the stream.
		_, _ = extender.Prioritize(call, &pb.PrioritizeRequest{Pod: document})
		cancel()
	}
}

// unheard returns a pod that waits for the extender to be heard, nil when there is none.
func unheard(view func() mirror.View, waits func() *v1.Pod) *v1.Pod {
	if view().Fresh {
		return nil
	}
	return waits()
}
