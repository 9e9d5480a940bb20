package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"podgroup-extender.io/plugin/core/pb"
)

// Reserve has nothing to reserve: the extender holds the seats.
func (p *Plugin) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

// Unreserve forgets that a member was on its way.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	p.leave(state, pod)
}

// Permit holds a member that was given its seat until the others of its plan are there. With
// barrier: Bind the extender does that.
func (p *Plugin) Permit(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (*fwk.Status, time.Duration) {
	given := granted(state)
	if given == nil || p.args.Barrier == Bind || p.barrier.arrive(pod.UID, node, given) {
		return nil, 0
	}
	klog.FromContext(ctx).V(3).Info("A member waits for the others of its gang", "pod", klog.KObj(pod), "node", node, "gang", given.gang)
	return fwk.NewStatus(fwk.Wait, "the other members of its gang are not there yet"), p.args.BarrierTimeout.Duration
}

// Bind hands the binding of those that the extender was asked about to it, with barrier: Bind.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	data, err := state.Read(stateKey)
	if p.args.Barrier != Bind || err != nil || !data.(*podState).asked {
		return fwk.NewStatus(fwk.Skip)
	}
	ctx, cancel := context.WithTimeout(ctx, p.args.BarrierTimeout.Duration)
	defer cancel()
	answer, err := p.extender.Bind(ctx, &pb.BindRequest{
		PodName: pod.Name, PodNamespace: pod.Namespace, PodUid: string(pod.UID), NodeName: node,
	})
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("binding by the extender: %w", err))
	}
	if answer.GetError() != "" {
		return fwk.AsStatus(errors.New(answer.GetError()))
	}
	return nil
}

// PostBind forgets a member that has its node.
func (p *Plugin) PostBind(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	p.leave(state, pod)
}

func (p *Plugin) leave(state fwk.CycleState, pod *v1.Pod) {
	if given := granted(state); given != nil {
		p.barrier.leave(pod.UID, given.gang)
	}
}

func granted(state fwk.CycleState) *grant {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil
	}
	return data.(*podState).seat
}
