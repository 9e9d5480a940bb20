package verifier

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// cluster is what kube-scheduler knows of the cluster, kept as kube-scheduler keeps it.
type cluster struct {
	client    clientset.Interface
	informers informers.SharedInformerFactory
	nodes     schedulercache.Cache
	snapshot  *schedulercache.Snapshot
	devices   fwk.SharedDRAManager
	pods      *followed
	nodeSeen  *followed
	handlers  []cache.ResourceEventHandlerRegistration
}

// followed is one informer whose changes are counted once they are in kube-scheduler's cache.
type followed struct {
	informer cache.SharedIndexInformer
	newest   atomic.Uint64
}

func newCluster(ctx context.Context, client clientset.Interface, minor Minor) (*cluster, error) {
	metrics.Register() // kube-scheduler's cache counts
	factory := minor.Informers(client)
	c := &cluster{
		client:    client,
		informers: factory,
		nodes:     minor.Cache(ctx),
		snapshot:  schedulercache.NewEmptySnapshot(),
		pods:      &followed{informer: factory.Core().V1().Pods().Informer()},
		nodeSeen:  &followed{informer: factory.Core().V1().Nodes().Informer()},
	}
	if err := c.follow(klog.FromContext(ctx)); err != nil {
		return nil, err
	}
	gates := utilfeature.DefaultFeatureGate
	if !gates.Enabled(features.DynamicResourceAllocation) {
		return c, nil
	}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	options := tracker.Options{
		EnableDeviceTaintRules:   gates.Enabled(features.DRADeviceTaintRules),
		EnableConsumableCapacity: gates.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            factory.Resource().V1().ResourceSlices(),
		KubeClient:               client,
	}
	if options.EnableDeviceTaintRules {
		minor.TaintRules(&options, factory)
	}
	slices, err := tracker.StartTracker(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("ResourceSlices: %w", err)
	}
	manager := dynamicresources.NewDRAManager(ctx, claims, slices, factory)
	if classes, ok := manager.DeviceClassResolver().(cache.ResourceEventHandler); ok && gates.Enabled(features.DRAExtendedResource) {
		handler, err := factory.Resource().V1().DeviceClasses().Informer().AddEventHandler(classes)
		if err != nil {
			return nil, err
		}
		c.handlers = append(c.handlers, handler)
	}
	c.devices = manager
	return c, nil
}

// follow keeps kube-scheduler's cache of nodes and of the pods that have one.
func (c *cluster) follow(logger klog.Logger) error {
	placed := cache.FilteringResourceEventHandler{
		FilterFunc: func(object any) bool { pod := podOf(object); return pod != nil && pod.Spec.NodeName != "" },
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { told(logger, c.nodes.AddPod(logger, podOf(object))) },
			UpdateFunc: func(old, object any) { told(logger, c.nodes.UpdatePod(logger, podOf(old), podOf(object))) },
			DeleteFunc: func(object any) { told(logger, c.nodes.RemovePod(logger, podOf(object))) },
		},
	}
	nodes := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { c.nodes.AddNode(logger, object.(*v1.Node)) },
		UpdateFunc: func(old, object any) { c.nodes.UpdateNode(logger, old.(*v1.Node), object.(*v1.Node)) },
		DeleteFunc: func(object any) {
			if node, ok := plain(object).(*v1.Node); ok {
				told(logger, c.nodes.RemoveNode(logger, node))
			}
		},
	}
	for _, each := range []struct {
		to      *followed
		handler cache.ResourceEventHandler
	}{{c.pods, placed}, {c.nodeSeen, nodes}} {
		handler, err := each.to.informer.AddEventHandler(counting{each.handler, &each.to.newest})
		if err != nil {
			return err
		}
		c.handlers = append(c.handlers, handler)
	}
	return nil
}

// counting notes the resourceVersion of what a handler has taken in.
type counting struct {
	to     cache.ResourceEventHandler
	newest *atomic.Uint64
}

func (c counting) OnAdd(object any, initial bool) { c.to.OnAdd(object, initial); c.note(object) }
func (c counting) OnUpdate(old, object any)       { c.to.OnUpdate(old, object); c.note(object) }
func (c counting) OnDelete(object any)            { c.to.OnDelete(object); c.note(plain(object)) }

func (c counting) note(object any) {
	if meta, ok := object.(interface{ GetResourceVersion() string }); ok {
		if version := number(meta.GetResourceVersion()); version > c.newest.Load() {
			c.newest.Store(version)
		}
	}
}

// start begins all watches and returns once everything was read.
func (c *cluster) start(ctx context.Context) error {
	c.informers.StartWithContext(ctx)
	for kind, synced := range c.informers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("%v could not be read", kind)
		}
	}
	for _, handler := range c.handlers {
		if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
			return ctx.Err()
		}
	}
	return nil
}

// settleTime is how long changes may be on their way from an informer to the handlers that keep the
// cache.
const settleTime = 100 * time.Millisecond

// reaches waits until a state at least as new as this version is in the cache. It says false where
// that is not so before the context ends.
func (f *followed) reaches(ctx context.Context, version string) bool {
	wanted := number(version)
	var since time.Time
	for f.newest.Load() < wanted {
		// Versions of a list, of bookmarks and of deletions are the informer's alone.
		if number(f.informer.LastSyncResourceVersion()) < wanted {
			since = time.Time{}
		} else if since.IsZero() {
			since = time.Now()
		} else if time.Since(since) >= settleTime {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true
}

func (c *cluster) pod(namespace, name, uid string) *v1.Pod {
	pod, err := c.informers.Core().V1().Pods().Lister().Pods(namespace).Get(name)
	if err != nil || (uid != "" && string(pod.UID) != uid) {
		return nil
	}
	return pod
}

func podOf(object any) *v1.Pod {
	pod, _ := plain(object).(*v1.Pod)
	return pod
}

func plain(object any) any {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return object
}

func told(logger klog.Logger, err error) {
	if err != nil {
		logger.Error(err, "kube-scheduler's cache did not take in a change")
	}
}

func number(version string) uint64 {
	value, _ := strconv.ParseUint(version, 10, 64)
	return value
}
