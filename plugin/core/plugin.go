// Package core is podgroup-extender as a plugin of kube-scheduler. Gangs get their seats from the
// extender, by gRPC; every other pod is judged by a mirror of the seats held, without a call.
package core

import (
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"podgroup-extender.io/plugin/core/mirror"
	"podgroup-extender.io/plugin/core/pb"
)

// Name is what profiles call the plugin.
const Name = "PodGroupExtender"

// runner is what is needed of the framework beyond fwk.Handle; its implementation is both.
type runner interface {
	RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
	ListPlugins() *config.Plugins
}

// Plugin implements the extension points.
type Plugin struct {
	args       *Args
	handle     fwk.Handle
	runner     runner
	extender   pb.ExtenderServiceClient
	view       func() mirror.View
	preemption *defaultpreemption.DefaultPreemption
	barrier    *barrier
	kept       *kept

	profile func() error
}

var (
	_ fwk.PreEnqueuePlugin = &Plugin{}
	_ fwk.PreFilterPlugin  = &Plugin{}
	_ fwk.FilterPlugin     = &Plugin{}
	_ fwk.PostFilterPlugin = &Plugin{}
	_ fwk.ReservePlugin    = &Plugin{}
	_ fwk.PermitPlugin     = &Plugin{}
	_ fwk.BindPlugin       = &Plugin{}
	_ fwk.PostBindPlugin   = &Plugin{}
	_ fwk.SignPlugin       = &Plugin{}
)

// New makes the plugin; it is the factory given to app.WithPlugin. It does not wait for the
// extender: until the mirror is there pods are kept waiting.
func New(ctx context.Context, given runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, err := readArgs(given)
	if err != nil {
		return nil, err
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) {
		return nil, fmt.Errorf("%s: kube-scheduler's own gang scheduling is on and evicts by rules of its own: "+
			"run it with --feature-gates=GenericWorkload=false", Name)
	}
	connection, err := connect(args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	closeWith(ctx, connection)
	plugin, err := assemble(ctx, args, handle, pb.NewExtenderServiceClient(connection))
	if err != nil {
		return nil, err
	}
	seats := mirror.New(pb.NewWatchServiceClient(connection), args.Heartbeat.Duration, plugin.seatsChanged)
	plugin.view = seats.View
	go seats.Run(ctx)
	go plugin.barrier.run(ctx)
	go plugin.kept.run(ctx)
	go knock(ctx, plugin.extender, plugin.view, plugin.kept.any, args.CallTimeout.Duration)
	return plugin, nil
}

func assemble(ctx context.Context, args *Args, handle fwk.Handle, extender pb.ExtenderServiceClient) (*Plugin, error) {
	framework, ok := handle.(runner)
	if !ok {
		return nil, fmt.Errorf("%s: %T does not run PreFilter plugins: this kube-scheduler is not supported", Name, handle)
	}
	made := &Plugin{args: args, handle: handle, runner: framework, extender: extender}
	made.view = func() mirror.View { return mirror.View{Why: "nothing was told yet"} }
	made.barrier = newBarrier(handle, func() mirror.View { return made.view() })
	made.kept = newKept(handle)
	made.profile = sync.OnceValue(func() error { return checkProfile(framework.ListPlugins(), args) })
	asking := &preempting{Handle: handle, verb: &preemptVerb{extender: extender, timeout: args.CallTimeout.Duration}}
	preemption, err := defaultpreemption.New(ctx, &config.DefaultPreemptionArgs{
		MinCandidateNodesPercentage: *args.MinCandidateNodesPercentage,
		MinCandidateNodesAbsolute:   *args.MinCandidateNodesAbsolute,
	}, asking, plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	made.preemption = preemption
	return made, nil
}

// Name returns the plugin's name.
func (p *Plugin) Name() string { return Name }

// PreEnqueue keeps a pod back while its preemption is under way, as DefaultPreemption does.
func (p *Plugin) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	return p.preemption.PreEnqueue(ctx, pod)
}

// SignPod lets pods of no gang be scheduled in batches: what this plugin says of them depends on
// their requests, which others sign, and their priority.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	view := p.view()
	if view.State == nil || member(view.State, pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members of gangs have seats of their own")
	}
	return []fwk.SignFragment{{Key: Name + ".priority", Value: priority(pod)}}, nil
}

func (p *Plugin) seatsChanged(before, after *mirror.State) {
	p.barrier.wake()
	if before == nil || freed(before, after) {
		p.kept.wake()
	}
}

// freed says whether a node has a seat less, one that keeps fewer pods away than before, or more room
// leaving. Another seat may have come in the place of one, in the same message.
func freed(before, after *mirror.State) bool {
	for name, node := range before.Nodes {
		now := after.Nodes[name]
		if now == node {
			continue
		}
		if now == nil || len(now.Leaving) > len(node.Leaving) {
			return true
		}
		for _, seat := range node.Seats {
			index := slices.IndexFunc(now.Seats, func(each mirror.Seat) bool { return each.Pod == seat.Pod })
			if index < 0 || eased(seat, now.Seats[index]) {
				return true
			}
		}
	}
	return false
}

// eased says whether a seat keeps fewer pods away than it did.
func eased(before, now mirror.Seat) bool {
	if before.Firm && !now.Firm || now.Priority < before.Priority {
		return true
	}
	asked := now.Claims(nil)
	for name, amount := range before.Claims(nil) {
		if asked[name] < amount {
			return true
		}
	}
	return false
}

func priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// member says whether a pod has to be asked about: it may belong to a gang, or has a seat.
func member(state *mirror.State, pod *v1.Pod) bool {
	if pod.Spec.SchedulingGroup != nil {
		return true
	}
	if _, seated := state.Seat(pod.UID); seated {
		return true
	}
	for key := range pod.Labels {
		if _, named := state.Keys[key]; named {
			return true
		}
	}
	for key := range pod.Annotations {
		if _, named := state.Keys[key]; named {
			return true
		}
	}
	return false
}
