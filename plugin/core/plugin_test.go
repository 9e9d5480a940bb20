package core

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"podgroup-extender.io/plugin/core/mirror"
	"podgroup-extender.io/plugin/core/pb"
)

const gangKey = "example.com/gang"

// cluster stands for the framework: other plugins refuse the nodes named in refused.
type cluster struct {
	fwk.Handle
	refused sets.Set[string]
	probed  []string
	named   sets.Set[v1.ResourceName]
}

// devices stands for what kube-scheduler knows of DeviceClasses: they name the resources in named.
type devices struct {
	fwk.SharedDRAManager
	named sets.Set[v1.ResourceName]
}

func (d devices) DeviceClassResolver() fwk.DeviceClassResolver { return d }

func (d devices) GetDeviceClass(name v1.ResourceName) *resourceapi.DeviceClass {
	if !d.named.Has(name) {
		return nil
	}
	return &resourceapi.DeviceClass{}
}

func (c *cluster) SharedDRAManager() fwk.SharedDRAManager { return devices{named: c.named} }

func (c *cluster) RunPreFilterPlugins(context.Context, fwk.CycleState, *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	return nil, nil, nil
}

func (c *cluster) RunFilterPluginsWithNominatedPods(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if name := node.Node().Name; c.refused.Has(name) {
		return fwk.NewStatus(fwk.Unschedulable, "no room")
	}
	return nil
}

func (c *cluster) ListPlugins() *config.Plugins           { return &config.Plugins{} }
func (c *cluster) Parallelizer() fwk.Parallelizer         { return serial{} }
func (c *cluster) GetWaitingPod(types.UID) fwk.WaitingPod { return nil }

type serial struct{}

func (serial) Until(_ context.Context, pieces int, work workqueue.DoWorkPieceFunc, _ string) {
	for piece := range pieces {
		work(piece)
	}
}

// verbs is an extender that answers as a test says, and counts questions.
type verbs struct {
	pb.ExtenderServiceClient
	filter   func(*pb.FilterRequest) (*pb.FilterResponse, error)
	preempt  func(*pb.PreemptRequest) (*pb.PreemptResponse, error)
	asked    int
	deadline bool
	knocked  chan *pb.PrioritizeRequest
}

func (v *verbs) Prioritize(ctx context.Context, asked *pb.PrioritizeRequest, _ ...grpc.CallOption) (*pb.PrioritizeResponse, error) {
	select {
	case v.knocked <- asked:
	case <-ctx.Done():
	}
	return nil, errors.New("not leading")
}

func (v *verbs) Filter(ctx context.Context, asked *pb.FilterRequest, _ ...grpc.CallOption) (*pb.FilterResponse, error) {
	v.asked++
	_, v.deadline = ctx.Deadline()
	return v.filter(asked)
}

func (v *verbs) Preempt(ctx context.Context, asked *pb.PreemptRequest, _ ...grpc.CallOption) (*pb.PreemptResponse, error) {
	v.asked++
	_, v.deadline = ctx.Deadline()
	return v.preempt(asked)
}

func plugin(view mirror.View, extender *verbs, whenCut string) (*Plugin, *cluster) {
	handle := &cluster{refused: sets.New[string]()}
	made := &Plugin{
		args:   &Args{WhenCut: whenCut, Barrier: Permit, CallTimeout: metav1.Duration{Duration: time.Second}},
		handle: handle, runner: handle, extender: extender,
		view:    func() mirror.View { return view },
		profile: func() error { return nil },
	}
	made.kept = newKept(nil)
	made.barrier = newBarrier(handle, made.view)
	return made, handle
}

func seats(t *testing.T, nodes ...*pb.NodeSeats) *mirror.State {
	t.Helper()
	state, err := mirror.Next(nil, &pb.WatchSeatsResponse{
		Term: "a", Version: 1, Full: true, Nodes: nodes, GangKeys: []string{gangKey},
	})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func held(node, pod string, priority int32, cpu int64, firm bool) *pb.NodeSeats {
	return &pb.NodeSeats{NodeName: node, Seats: []*pb.HeldSeat{{
		PodUid: pod, Gang: "g", Priority: priority, Firm: firm,
		Requests: []*pb.ResourceAmount{{Name: "cpu", Amount: cpu}, {Name: "pods", Amount: 1}},
	}}}
}

func pod(uid string, priority int32, cpu string, labels map[string]string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "default", UID: types.UID(uid), Labels: labels},
		Spec: v1.PodSpec{Priority: &priority, Containers: []v1.Container{{Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)},
		}}}},
	}
}

func nodeInfo(name string, pods ...*v1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(&v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("110"),
		}},
	})
	return info
}

func nodes(names ...string) []fwk.NodeInfo {
	made := []fwk.NodeInfo{}
	for _, name := range names {
		made = append(made, nodeInfo(name))
	}
	return made
}

var gang = map[string]string{gangKey: "g"}

func TestPodsOfNoGangCostNoCall(t *testing.T) {
	extender := &verbs{}
	made, _ := plugin(mirror.View{State: seats(t), Fresh: true}, extender, Hold)
	_, status := made.PreFilter(t.Context(), framework.NewCycleState(), pod("p", 0, "1", nil), nodes("n1"))
	if !status.IsSkip() {
		t.Errorf("without any seat Filter is not run at all: %v", status)
	}
	made, _ = plugin(mirror.View{State: seats(t, held("n1", "u", 10, 3000, false)), Fresh: true}, extender, Hold)
	state := framework.NewCycleState()
	one := pod("p", 0, "2", nil)
	if _, status := made.PreFilter(t.Context(), state, one, nodes("n1", "n2")); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := made.Filter(t.Context(), state, one, nodeInfo("n2")); !status.IsSuccess() {
		t.Errorf("n2 has no seat: %v", status)
	}
	status = made.Filter(t.Context(), state, one, nodeInfo("n1"))
	if status.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(status.Message(), "held for 1 of other namespaces (short of cpu)") {
		t.Errorf("n1: %v", status)
	}
	if extender.asked != 0 {
		t.Errorf("asked %d times", extender.asked)
	}
}

func TestWhichSeatsAreInTheWay(t *testing.T) {
	leaving := held("n1", "u", 10, 3000, false)
	leaving.Leaving = []*pb.LeavingPod{{PodUid: "old", Requests: []*pb.ResourceAmount{{Name: "cpu", Amount: 3000}}}}
	// A booked start that waits for a pod with three of the four cores, and asks for all.
	booked := held("n1", "booked", 10, 1000, false)
	booked.Seats[0].Asked = []*pb.ResourceAmount{{Name: "cpu", Amount: 4000}}
	booked.Seats[0].Awaited = []*pb.LeavingPod{{PodUid: "old", Requests: []*pb.ResourceAmount{{Name: "cpu", Amount: 3000}, {Name: "memory", Amount: 1}}}}
	// What it asks for is less than what the pod has that it waits for.
	small := held("n1", "booked", 10, 0, false)
	small.Seats[0].Asked = []*pb.ResourceAmount{{Name: "cpu", Amount: 2000}}
	small.Seats[0].Awaited = booked.Seats[0].Awaited
	for name, each := range map[string]struct {
		seats    *pb.NodeSeats
		here     []*v1.Pod
		priority int32
		cpu      string
		fits     bool
	}{
		"beside the seat":                       {held("n1", "u", 10, 3000, false), nil, 0, "1", true},
		"equal priority":                        {held("n1", "u", 10, 3000, false), nil, 10, "2", false},
		"higher priority":                       {held("n1", "u", 10, 3000, false), nil, 11, "2", true},
		"higher priority, firm":                 {held("n1", "u", 10, 3000, true), nil, 11, "2", false},
		"its own":                               {held("n1", "p", 10, 3000, true), nil, 10, "4", true},
		"the member is there, counted once":     {held("n1", "u", 10, 3000, false), []*v1.Pod{pod("u", 10, "3", nil)}, 0, "1", true},
		"who leaves gives its room back":        {leaving, []*v1.Pod{pod("old", 0, "3", nil)}, 0, "1", true},
		"and not twice when it has left":        {leaving, nil, 0, "2", false},
		"nothing is left beside who is awaited": {booked, []*v1.Pod{pod("old", 0, "3", nil)}, 0, "1", false},
		"who is awaited has gone, untold":       {booked, nil, 0, "1", false},
		"more urgent than what is booked":       {booked, nil, 11, "1", true},
		"room that nobody booked":               {small, []*v1.Pod{pod("old", 0, "3", nil)}, 0, "1", true},
		"beside what is booked once it is free": {small, nil, 0, "2", true},
		"but not of what is booked":             {small, nil, 0, "3", false},
		"nothing is asked of what is short":     {held("n1", "u", 10, 9000, false), nil, 0, "0", true},
		"no room for another pod in the count":  {&pb.NodeSeats{NodeName: "n1", Seats: []*pb.HeldSeat{{PodUid: "u", Gang: "g", Priority: 10, Requests: []*pb.ResourceAmount{{Name: "pods", Amount: 110}}}}}, nil, 0, "1", false},
	} {
		made, _ := plugin(mirror.View{State: seats(t, each.seats), Fresh: true}, &verbs{}, Hold)
		state, one := framework.NewCycleState(), pod("p", each.priority, each.cpu, nil)
		state.Write(stateKey, &podState{seats: made.view().State, wants: requests(one), priority: each.priority})
		if status := made.Filter(t.Context(), state, one, nodeInfo("n1", each.here...)); status.IsSuccess() != each.fits {
			t.Errorf("%s: %v", name, status)
		}
	}
}

// tests/verbs/test_limited_by_node.py asks the extender's own filter the same.
func TestPodsWithVolumesAndDevicesAreKeptOffLikeInTheExtender(t *testing.T) {
	data, err := os.ReadFile("testdata/limited.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Case   string
		Member v1.PodSpec
		Told   []string
		Pod    v1.PodSpec
		Kept   string
		Named  []v1.ResourceName
		Offers v1.ResourceList
	}
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) == 0 {
		t.Fatal(len(cases), err)
	}
	for _, each := range cases {
		told := held("n1", "u", 10, 1000, false)
		told.Seats[0].Volumes, told.Seats[0].Devices = slices.Contains(each.Told, "volumes"), slices.Contains(each.Told, "devices")
		for name, amount := range requests(&v1.Pod{Spec: each.Member}).GetScalarResources() {
			// The extender counts none of what is named after a DeviceClass.
			if !strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix) {
				told.Seats[0].Requests = append(told.Seats[0].Requests, &pb.ResourceAmount{Name: string(name), Amount: amount})
			}
		}
		made, handle := plugin(mirror.View{State: seats(t, told), Fresh: true}, &verbs{}, Hold)
		handle.named = sets.New(each.Named...)
		one := pod("p", 10, "1", nil)
		each.Pod.Priority = one.Spec.Priority
		one.Spec = each.Pod
		ask := func(node fwk.NodeInfo) *fwk.Status {
			offering := node.Node().DeepCopy()
			maps.Copy(offering.Status.Allocatable, each.Offers)
			node.SetNode(offering)
			state := framework.NewCycleState()
			state.Write(stateKey, &podState{seats: made.view().State, wants: requests(one), priority: priority(one)})
			return made.Filter(t.Context(), state, one, node)
		}
		why := ""
		if each.Kept != "" {
			why = "its room is held for 1 of other namespaces, whose members need " + each.Kept + " too"
		}
		if status := ask(nodeInfo("n1")); status.Message() != why {
			t.Errorf("%s: %v", each.Case, status)
		}
		if status := ask(nodeInfo("n1", pod("u", 10, "1", nil))); !status.IsSuccess() {
			t.Errorf("%s: the member has its seat, and kube-scheduler counts what it has: %v", each.Case, status)
		}
	}
}

func TestAMemberGetsItsSeatAndNothingElse(t *testing.T) {
	var offered []string
	extender := &verbs{filter: func(asked *pb.FilterRequest) (*pb.FilterResponse, error) {
		offered = asked.GetNodeNames()
		return &pb.FilterResponse{
			NodeNames:             []string{"n3"},
			FailedAndUnresolvable: []*pb.RefusedNodes{{Reason: "its seat is on n3", NodeNames: []string{"n1"}}},
			Seat:                  &pb.OpenSeat{Gang: "g", Term: "a", Version: 1},
		}, nil
	}}
	made, handle := plugin(mirror.View{State: seats(t), Fresh: true}, extender, Hold)
	handle.refused.Insert("n2")
	state, one := framework.NewCycleState(), pod("u", 10, "1", gang)
	result, status := made.PreFilter(t.Context(), state, one, nodes("n1", "n2", "n3"))
	if !status.IsSuccess() || !result.NodeNames.Equal(sets.New("n3")) {
		t.Fatalf("%v %v", result, status)
	}
	if strings.Join(offered, " ") != "n1 n3" || !extender.deadline {
		t.Errorf("offered %v, with a deadline: %v", offered, extender.deadline)
	}
	// kube-scheduler tries a nominated node whatever PreFilter says.
	if status := made.Filter(t.Context(), state, one, nodeInfo("n1")); status.Message() != "its seat is on n3" {
		t.Errorf("n1: %v", status)
	}
	if status := made.Filter(t.Context(), state, one, nodeInfo("n3")); !status.IsSuccess() {
		t.Errorf("n3: %v", status)
	}
}

func TestAKnownSeatIsLookedAtAlone(t *testing.T) {
	extender := &verbs{filter: func(asked *pb.FilterRequest) (*pb.FilterResponse, error) {
		if names := asked.GetNodeNames(); len(names) != 1 || names[0] != "n2" {
			t.Errorf("offered %v", names)
		}
		return &pb.FilterResponse{FailedAndUnresolvable: []*pb.RefusedNodes{{Reason: "waits for 2 pods", NodeNames: []string{"n2"}}}}, nil
	}}
	view := mirror.View{State: seats(t, held("n2", "u", 10, 1000, false)), Fresh: true}
	made, _ := plugin(view, extender, Hold)
	_, status := made.PreFilter(t.Context(), framework.NewCycleState(), pod("u", 10, "1", nil), nodes("n1", "n2"))
	if status.Code() != fwk.UnschedulableAndUnresolvable || status.Message() != "waits for 2 pods" {
		t.Errorf("%v", status)
	}
}

func TestAMemberThatFitsNowhereIsLeftToPreemption(t *testing.T) {
	extender := &verbs{}
	made, handle := plugin(mirror.View{State: seats(t), Fresh: true}, extender, Hold)
	handle.refused.Insert("n1")
	state, one := framework.NewCycleState(), pod("u", 10, "1", gang)
	if _, status := made.PreFilter(t.Context(), state, one, nodes("n1")); !status.IsSuccess() || extender.asked != 0 {
		t.Errorf("%v, asked %d times", status, extender.asked)
	}
	if status := made.Filter(t.Context(), state, one, nodeInfo("n1")); !status.IsSuccess() {
		t.Errorf("nothing is added to what others say: %v", status)
	}
}

func TestWithoutAnAnswerAMemberGetsNothing(t *testing.T) {
	extender := &verbs{filter: func(*pb.FilterRequest) (*pb.FilterResponse, error) { return nil, errors.New("gone") }}
	made, _ := plugin(mirror.View{State: seats(t), Fresh: true}, extender, Hold)
	_, status := made.PreFilter(t.Context(), framework.NewCycleState(), pod("u", 10, "1", gang), nodes("n1"))
	if !status.IsError() {
		t.Errorf("%v", status)
	}
}

func TestACutMirrorFailsClosed(t *testing.T) {
	known := seats(t, held("n1", "u", 10, 1000, false))
	never := mirror.View{Why: "nothing was told yet"}
	cut := mirror.View{State: known, Why: "cut"}
	plain, one := pod("p", 100, "1", nil), pod("u", 10, "1", gang)
	for name, each := range map[string]struct {
		view    mirror.View
		pod     *v1.Pod
		whenCut string
		kept    bool
	}{
		"a member":                                {cut, one, Hold, true},
		"a member, elsewhere":                     {cut, one, Elsewhere, true},
		"any pod":                                 {cut, plain, Hold, true},
		"a pod of no gang, elsewhere":             {cut, plain, Elsewhere, false},
		"before it is known who is a member":      {never, plain, Elsewhere, true},
		"whoever has a seat is no pod of no gang": {cut, pod("u", 10, "1", nil), Elsewhere, true},
	} {
		extender := &verbs{}
		made, _ := plugin(each.view, extender, each.whenCut)
		state := framework.NewCycleState()
		_, status := made.PreFilter(t.Context(), state, each.pod, nodes("n1", "n2"))
		if kept := status.Code() == fwk.UnschedulableAndUnresolvable; kept != each.kept {
			t.Errorf("%s: %v", name, status)
		}
		if each.kept != (len(made.kept.pods) == 1) {
			t.Errorf("%s: tried again when the mirror is back: %v", name, made.kept.pods)
		}
		if !each.kept {
			if status := made.Filter(t.Context(), state, each.pod, nodeInfo("n1")); status.Code() != fwk.UnschedulableAndUnresolvable {
				t.Errorf("%s: a node with seats, whatever the priority and the room: %v", name, status)
			}
			if status := made.Filter(t.Context(), state, each.pod, nodeInfo("n2")); !status.IsSuccess() {
				t.Errorf("%s: another node: %v", name, status)
			}
		}
		if _, status := made.PostFilter(t.Context(), state, each.pod, nil); status.Code() != fwk.UnschedulableAndUnresolvable {
			t.Errorf("%s: no pod is evicted: %v", name, status)
		}
		if extender.asked != 0 {
			t.Errorf("%s: asked", name)
		}
	}
}

func TestWhoKeepsPodsWaitingKnocks(t *testing.T) {
	extender := &verbs{knocked: make(chan *pb.PrioritizeRequest)}
	view := mirror.View{Why: "cut"}
	made, _ := plugin(view, extender, Hold)
	if unheard(made.view, made.kept.any) != nil {
		t.Error("a kube-scheduler that stands by must not take the lease along")
	}
	_, _ = made.PreFilter(t.Context(), framework.NewCycleState(), pod("p", 0, "1", nil), nil)
	if unheard(func() mirror.View { return mirror.View{Fresh: true} }, made.kept.any) != nil {
		t.Error("it is heard")
	}
	go knock(t.Context(), extender, made.view, made.kept.any, time.Minute)
	for range 2 { // until it is heard
		if asked := <-extender.knocked; !strings.Contains(string(asked.GetPod()), `"uid":"p"`) {
			t.Errorf("%s", asked.GetPod())
		}
	}
}

func TestAnUnsafeProfileSchedulesNothing(t *testing.T) {
	ours := config.PluginSet{Enabled: []config.Plugin{{Name: Name}}}
	fine := func() *config.Plugins {
		return &config.Plugins{
			PreEnqueue: ours, PreFilter: ours, Filter: ours, PostFilter: ours, Reserve: ours, Permit: ours, PostBind: ours,
		}
	}
	if err := checkProfile(fine(), &Args{Barrier: Permit}); err != nil {
		t.Error(err)
	}
	twice := fine()
	twice.PostFilter = config.PluginSet{Enabled: []config.Plugin{{Name: "DefaultPreemption"}, {Name: Name}}}
	if err := checkProfile(twice, &Args{Barrier: Permit}); err == nil || !strings.Contains(err.Error(), "evicts without asking") {
		t.Error(err)
	}
	late := fine()
	late.Bind = config.PluginSet{Enabled: []config.Plugin{{Name: "DefaultBinder"}, {Name: Name}}}
	if err := checkProfile(late, &Args{Barrier: Bind}); err == nil {
		t.Error("the binder that comes first binds")
	}
	missing := fine()
	missing.Permit = config.PluginSet{}
	if err := checkProfile(missing, &Args{Barrier: Permit}); err == nil {
		t.Error("no Permit")
	}
	made, _ := plugin(mirror.View{State: seats(t), Fresh: true}, &verbs{}, Hold)
	made.profile = func() error { return errors.New("unsafe") }
	if _, status := made.PreFilter(t.Context(), framework.NewCycleState(), pod("p", 0, "1", nil), nil); !status.IsError() {
		t.Error(status)
	}
}

// What keeps a pod off a node is read by its owner, who may know nothing of other namespaces.
func TestGangsOfOtherNamespacesAreNotNamed(t *testing.T) {
	theirs, ours := held("n1", "u", 10, 2000, false), held("n1", "w", 10, 2000, false)
	theirs.Seats[0].Gang, ours.Seats[0].Gang = "pod-group:secret/merger", "pod-group:default/ours"
	theirs.Seats = append(theirs.Seats, ours.Seats...)
	made, _ := plugin(mirror.View{State: seats(t, theirs), Fresh: true}, &verbs{}, Hold)
	state, one := framework.NewCycleState(), pod("p", 0, "1", nil)
	if _, status := made.PreFilter(t.Context(), state, one, nodes("n1")); !status.IsSuccess() {
		t.Fatal(status)
	}
	why := made.Filter(t.Context(), state, one, nodeInfo("n1")).Message()
	if strings.Contains(why, "secret") || strings.Contains(why, "merger") {
		t.Errorf("its owner is told of a gang in another namespace: %s", why)
	}
	if !strings.Contains(why, "held for pod-group:default/ours, 1 of other namespaces (short of cpu)") {
		t.Errorf("got %s", why)
	}
}

func TestWhenPodsKeptOffAreTriedAgain(t *testing.T) {
	big, small := held("n1", "u", 10, 3000, false), held("n1", "w", 10, 1000, false)
	firm, shrunk := held("n1", "u", 10, 3000, true), held("n1", "u", 10, 1000, false)
	waits := held("n1", "booked", 10, 1000, false)
	waits.Seats[0].Asked = []*pb.ResourceAmount{{Name: "cpu", Amount: 4000}}
	waits.Seats[0].Awaited = []*pb.LeavingPod{{PodUid: "old", Requests: []*pb.ResourceAmount{{Name: "cpu", Amount: 3000}}}}
	less := held("n1", "booked", 10, 1000, false)
	less.Seats[0].Asked = []*pb.ResourceAmount{{Name: "cpu", Amount: 2000}}
	less.Seats[0].Awaited = waits.Seats[0].Awaited
	for name, each := range map[string]struct {
		before, after *pb.NodeSeats
		freed         bool
	}{
		"nothing has changed":                 {big, big, false},
		"the seat is given back":              {big, &pb.NodeSeats{NodeName: "n1"}, true},
		"a smaller one in its place":          {big, small, true},
		"a larger one in its place":           {small, big, true},
		"the same seat asks for less":         {big, shrunk, true},
		"the same seat asks for more":         {shrunk, big, false},
		"it keeps the urgent off no longer":   {firm, big, true},
		"it keeps the urgent off as well now": {big, firm, false},
		"a booked start asks for less":        {waits, less, true},
	} {
		if got := freed(seats(t, each.before), seats(t, each.after)); got != each.freed {
			t.Errorf("%s: %v", name, got)
		}
	}
}
