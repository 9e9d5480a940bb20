// Package verifier asks the filters of kube-scheduler itself whether a plan would hold: PreFilter,
// Filter and Reserve of the profile's plugins, on a state without the plan's victims, for one member
// after the other.
package verifier

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"podgroup-extender.io/plugin/core/pb"
)

// judge runs the plugins of kube-scheduler's profiles on the state of one question. Its callers take
// turns.
type judge struct {
	cluster  *cluster
	profiles profile.Map
	shown    *shown
	devices  *shownDevices
}

// shown is what the plugins see as the snapshot.
type shown struct{ fwk.SharedLister }

// shownDevices is what they see of claims and slices.
type shownDevices struct {
	fwk.SharedDRAManager
	claims *claims
}

func (d *shownDevices) ResourceClaims() fwk.ResourceClaimTracker { return d.claims }
func (d *shownDevices) ResourceSlices() fwk.ResourceSliceLister  { return d.claims }

func newJudge(ctx context.Context, c *cluster, profiles []config.KubeSchedulerProfile, others runtime.Registry) (*judge, error) {
	registry := plugins.NewInTreeRegistry()
	if err := registry.Merge(others); err != nil {
		return nil, err
	}
	j := &judge{cluster: c, shown: &shown{c.snapshot}}
	options := []runtime.Option{
		runtime.WithClientSet(c.client),
		runtime.WithInformerFactory(c.informers),
		runtime.WithSnapshotSharedLister(j.shown),
		runtime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(c.informers.Storage().V1().CSINodes().Lister())),
		runtime.WithWaitingPods(runtime.NewWaitingPodsMap()),
		runtime.WithPodsInPreBind(runtime.NewPodsInPreBindMap()),
		runtime.WithLogger(klog.FromContext(ctx)),
	}
	if c.devices != nil {
		j.devices = &shownDevices{SharedDRAManager: c.devices}
		options = append(options, runtime.WithSharedDRAManager(j.devices))
	}
	var err error
	if j.profiles, err = profile.NewMap(ctx, profiles, registry, noEvents, options...); err != nil {
		return nil, err
	}
	return j, nil
}

// noEvents: nothing is said in kube-scheduler's name.
func noEvents(string) events.EventRecorderLogger { return &events.FakeRecorder{} }

// without takes a plugin out of a profile: that of the extender would ask who asks.
func without(given *config.KubeSchedulerProfile, name string) {
	if given.Plugins == nil {
		return
	}
	all := reflect.ValueOf(given.Plugins).Elem()
	for at := range all.NumField() {
		if set, ok := all.Field(at).Addr().Interface().(*config.PluginSet); ok {
			set.Enabled = slices.DeleteFunc(set.Enabled, func(each config.Plugin) bool { return each.Name == name })
		}
	}
	given.PluginConfig = slices.DeleteFunc(given.PluginConfig, func(each config.PluginConfig) bool { return each.Name == name })
}

// errUnknown: this process does not know a member, so it cannot say anything of it.
var errUnknown = errors.New("a member is not known here")

// member is one pod that is placed, or was.
type member struct {
	seat   *pb.Seat
	pod    *v1.Pod
	cycle  fwk.CycleState
	placed *v1.Pod
}

// verify answers a question. The state is dropped afterwards.
func (j *judge) verify(ctx context.Context, asked *pb.VerifyRequest) ([]*pb.SeatRefusal, error) {
	logger := klog.FromContext(ctx)
	if err := j.cluster.nodes.UpdateSnapshot(logger, j.cluster.snapshot); err != nil {
		return nil, err
	}
	now, err := newState(logger, j.cluster.snapshot)
	if err != nil {
		return nil, err
	}
	j.shown.SharedLister = now
	defer func() { j.shown.SharedLister = j.cluster.snapshot }()
	if j.devices != nil {
		if j.devices.claims, err = newClaims(j.cluster.devices); err != nil {
			return nil, err
		}
	}
	if err := j.takeAway(now, asked.Gone); err != nil {
		return nil, err
	}
	var reserved []*member
	defer func() {
		for _, each := range slices.Backward(reserved) {
			j.profiles[each.pod.Spec.SchedulerName].RunReservePluginsUnreserve(ctx, each.cycle, each.placed, each.seat.NodeName)
		}
	}()
	for _, seat := range asked.Held {
		pod := j.cluster.pod(seat.Pod.Namespace, seat.Pod.Name, seat.Pod.Uid)
		if pod == nil || pod.Spec.NodeName != "" {
			continue
		}
		each := &member{seat: seat, pod: pod}
		if j.place(ctx, now, each) == nil {
			reserved = append(reserved, each)
		} else if err := now.place(pod, seat.NodeName); err != nil { // its room is taken all the same
			return nil, err
		}
	}
	members := make([]*member, 0, len(asked.Seats))
	for _, seat := range asked.Seats {
		pod := j.cluster.pod(seat.Pod.Namespace, seat.Pod.Name, seat.Pod.Uid)
		if pod == nil {
			return nil, fmt.Errorf("%w: %s/%s", errUnknown, seat.Pod.Namespace, seat.Pod.Name)
		}
		members = append(members, &member{seat: seat, pod: pod})
	}
	// One that is refused may be accepted once others are placed, as kube-scheduler tries again.
	for {
		var refused []*member
		var refusals []*pb.SeatRefusal
		for _, each := range members {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if refusal := j.place(ctx, now, each); refusal != nil {
				refused, refusals = append(refused, each), append(refusals, refusal)
			} else if each.cycle != nil {
				reserved = append(reserved, each)
			}
		}
		if err := ctx.Err(); err != nil { // what a filter says that was interrupted is no answer
			return nil, err
		}
		if len(refused) == 0 || len(refused) == len(members) {
			return refusals, nil
		}
		members = refused
	}
}

func (j *judge) takeAway(now *state, gone []*pb.PodReference) error {
	uids := sets.New[types.UID]()
	for _, each := range gone {
		pod := j.cluster.pod(each.Namespace, each.Name, each.Uid)
		if pod == nil || pod.Spec.NodeName == "" || uids.Has(pod.UID) {
			continue
		}
		uids.Insert(pod.UID)
		if err := now.takeAway(pod); err != nil {
			return err
		}
	}
	if j.devices == nil || len(uids) == 0 {
		return nil
	}
	return j.devices.claims.free(uids)
}

// place has one member accepted on its node and takes its room, or returns why it is refused.
func (j *judge) place(ctx context.Context, now *state, each *member) *pb.SeatRefusal {
	pod, node := each.pod, each.seat.NodeName
	refused := func(plugin string, anyNode bool, reasons ...string) *pb.SeatRefusal {
		return &pb.SeatRefusal{Seat: each.seat, Plugin: plugin, Reasons: reasons, AnyNode: anyNode}
	}
	if pod.Spec.NodeName == node {
		return nil
	}
	if pod.Spec.NodeName != "" {
		return refused("", true, "it has node "+pod.Spec.NodeName)
	}
	filters, ok := j.profiles[pod.Spec.SchedulerName]
	if !ok {
		return refused("", true, "no profile of kube-scheduler is named "+pod.Spec.SchedulerName)
	}
	info, err := now.Get(node)
	if err != nil {
		return refused("", false, "the node is gone")
	}
	if j.devices != nil {
		j.devices.claims.node = node
	}
	cycle := framework.NewCycleState()
	left, status, narrowed := filters.RunPreFilterPlugins(ctx, cycle, pod)
	if !status.IsSuccess() {
		return refused(status.Plugin(), true, status.Reasons()...)
	}
	if !left.AllNodes() && !left.NodeNames.Has(node) {
		return refused(strings.Join(sets.List(narrowed), ", "), false, "the node is not among those that it leaves")
	}
	if status := filters.RunFilterPlugins(ctx, cycle, pod, info); !status.IsSuccess() {
		return refused(status.Plugin(), false, status.Reasons()...)
	}
	placed := pod.DeepCopy()
	placed.Spec.NodeName = node
	if status := filters.RunReservePluginsReserve(ctx, cycle, placed, node); !status.IsSuccess() {
		filters.RunReservePluginsUnreserve(ctx, cycle, placed, node)
		return refused(status.Plugin(), false, status.Reasons()...)
	}
	each.cycle, each.placed = cycle, placed
	if err := errors.Join(now.place(pod, node), j.use(pod)); err != nil {
		return refused("", true, err.Error())
	}
	return nil
}

func (j *judge) use(pod *v1.Pod) error {
	if j.devices == nil {
		return nil
	}
	for at := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[at])
		if err == nil && name != nil {
			err = j.devices.claims.use(pod, *name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
