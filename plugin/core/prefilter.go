package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"podgroup-extender.io/plugin/core/mirror"
	"podgroup-extender.io/plugin/core/pb"
)

const stateKey fwk.StateKey = Name

// podState is what one attempt goes by, from PreFilter on.
type podState struct {
	seats *mirror.State
	// cut: the mirror is not believed, so nodes with seats are not for anybody.
	cut      bool
	wants    fwk.Resource
	priority int32
	// kept is set when a seat has kept the pod off a node.
	kept atomic.Bool

	// asked: the extender has named the nodes, and Filter has nothing to add.
	asked   bool
	allowed sets.Set[string]
	refused map[string]string
	seat    *grant
}

// grant is an open seat that the extender has given to a member.
type grant struct {
	gang    string
	term    string
	version uint64
}

// Clone returns the same state: Filter does not depend on which pods are taken off a node.
func (s *podState) Clone() fwk.StateData { return s }

type probing struct{}

// PreFilter asks the extender about members of gangs, and leaves them the nodes that it names. For
// other pods it looks at the mirror, and takes itself out of the way when there is no seat.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if ctx.Value(probing{}) != nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if err := p.profile(); err != nil {
		return nil, fwk.AsStatus(err)
	}
	view := p.view()
	// Without any state nobody knows who is a member.
	asked := view.State == nil || member(view.State, pod)
	if !view.Fresh && (asked || p.args.WhenCut == Hold) {
		p.kept.add(pod)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("it is not known which seats are held: %s", steady(view)))
	}
	made := &podState{
		seats: view.State, cut: !view.Fresh, wants: requests(pod), priority: priority(pod),
	}
	if asked {
		return p.ask(ctx, state, made, pod, nodes)
	}
	if len(view.State.Nodes) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(stateKey, made)
	return nil, nil
}

// steady returns a text that does not change from attempt to attempt: each change would write the pod,
// and wake it.
func steady(view mirror.View) string {
	if view.State == nil {
		return "the extender has not told yet"
	}
	return "the extender does not answer"
}

// PreFilterExtensions returns nil: what is removed from a node is seen in its NodeInfo.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// ask asks Filter. The question names the nodes that all other plugins accept now.
func (p *Plugin) ask(ctx context.Context, state fwk.CycleState, made *podState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	state.Write(stateKey, made)
	names, err := p.accepted(ctx, made, pod, nodes)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if len(names) == 0 {
		// The other plugins say why; whether somebody may go for it is asked in PostFilter.
		made.asked = true
		return nil, nil
	}
	document, err := json.Marshal(pod)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.args.CallTimeout.Duration)
	defer cancel()
	answer, err := p.extender.Filter(ctx, &pb.FilterRequest{Pod: document, NodeNames: names})
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("asking the extender: %w", err))
	}
	made.asked = true
	if answer.GetUnchanged() {
		made.allowed = sets.New(names...)
		return &fwk.PreFilterResult{NodeNames: made.allowed}, nil
	}
	made.allowed = sets.New(answer.GetNodeNames()...)
	made.refused = map[string]string{}
	why := ""
	for _, group := range append(answer.GetFailedAndUnresolvable(), answer.GetFailed()...) {
		for _, name := range group.GetNodeNames() {
			made.refused[name] = group.GetReason()
		}
		if why == "" {
			why = group.GetReason()
		}
	}
	if len(made.allowed) == 0 {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	if seat := answer.GetSeat(); seat != nil {
		made.seat = &grant{gang: seat.GetGang(), term: seat.GetTerm(), version: seat.GetVersion()}
	}
	return &fwk.PreFilterResult{NodeNames: made.allowed}, nil
}

// accepted returns the nodes that all other plugins accept for the pod now, in the order given. If
// the pod's seat is one of them, it alone is looked at: no other node would be given.
//
// Their PreFilter is run once more, with a state of its own: in ours it is not over yet.
func (p *Plugin) accepted(ctx context.Context, made *podState, pod *v1.Pod, nodes []fwk.NodeInfo) ([]string, error) {
	ctx = context.WithValue(ctx, probing{}, true)
	state := framework.NewCycleState()
	result, status, _ := p.runner.RunPreFilterPlugins(ctx, state, pod)
	if status.IsRejected() {
		return nil, nil
	}
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	wanted := make([]fwk.NodeInfo, 0, len(nodes))
	for _, node := range nodes {
		if result.AllNodes() || result.NodeNames.Has(node.Node().Name) {
			wanted = append(wanted, node)
		}
	}
	if seat, seated := made.seats.Seat(pod.UID); seated {
		for _, node := range wanted {
			if node.Node().Name == seat.Node && p.handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, node).IsSuccess() {
				return []string{seat.Node}, nil
			}
		}
	}
	passed := make([]bool, len(wanted))
	var mutex sync.Mutex
	var failed error
	p.handle.Parallelizer().Until(ctx, len(wanted), func(index int) {
		status := p.handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, wanted[index])
		passed[index] = status.IsSuccess()
		if !status.IsSuccess() && !status.IsRejected() {
			mutex.Lock()
			defer mutex.Unlock()
			failed = errors.Join(failed, status.AsError())
		}
	}, "PodGroupExtenderAccepted")
	if failed != nil {
		return nil, failed
	}
	names := make([]string, 0, len(wanted))
	for index, node := range wanted {
		if passed[index] {
			names = append(names, node.Node().Name)
		}
	}
	return names, nil
}

func requests(pod *v1.Pod) fwk.Resource {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		// Of its affinity terms; the requests are there.
		return (&framework.PodInfo{Pod: pod}).CalculateResource().Resource
	}
	return info.CalculateResource().Resource
}
