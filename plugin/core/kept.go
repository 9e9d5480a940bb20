package core

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// wakePause is the least time between two wake-ups, so that a plan of many nodes wakes a pod once.
const wakePause = time.Second

// kept are pods that a seat, or the lack of a mirror, has kept from being scheduled. Nothing in the
// cluster changes when seats are given back, so nobody else would try them again.
type kept struct {
	activator fwk.PodActivator
	mutex     sync.Mutex
	pods      map[string]*v1.Pod
	signal    chan struct{}
}

func newKept(activator fwk.PodActivator) *kept {
	return &kept{activator: activator, pods: map[string]*v1.Pod{}, signal: make(chan struct{}, 1)}
}

func (k *kept) add(pod *v1.Pod) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.pods[pod.Namespace+"/"+pod.Name] = pod
}

// any returns one of them, nil when there is none.
func (k *kept) any() *v1.Pod {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, pod := range k.pods {
		return pod
	}
	return nil
}

// wake tries all of them again, soon.
func (k *kept) wake() {
	select {
	case k.signal <- struct{}{}:
	default:
	}
}

func (k *kept) run(ctx context.Context) {
	logger := klog.FromContext(ctx).WithName("kept")
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.signal:
		}
		k.mutex.Lock()
		pods := k.pods
		k.pods = map[string]*v1.Pod{}
		k.mutex.Unlock()
		if len(pods) > 0 {
			logger.V(3).Info("Trying pods again", "pods", len(pods))
			k.activator.Activate(logger, pods)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wakePause):
		}
	}
}
