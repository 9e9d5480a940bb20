package core

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"podgroup-extender.io/plugin/core/pb"
)

// PostFilter is DefaultPreemption's, with the extender asked which of the pods may go. For a gang
// none may: the extender evicts for it, whole units on all its nodes.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if data, err := state.Read(stateKey); err == nil && data.(*podState).kept.Load() {
		p.kept.add(pod)
	}
	if view := p.view(); !view.Fresh {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no pod is evicted while the extender does not answer")
	}
	return p.preemption.PostFilter(ctx, state, pod, statuses)
}

// preempting is a handle that has one extender more: how DefaultPreemption asks before it acts.
type preempting struct {
	fwk.Handle
	verb *preemptVerb
}

// Extenders returns those configured, and ours.
func (h *preempting) Extenders() []fwk.Extender {
	return append(slices.Clone(h.Handle.Extenders()), h.verb)
}

// preemptVerb asks Preempt. Nothing else is asked of it.
type preemptVerb struct {
	fwk.Extender
	extender pb.ExtenderServiceClient
	timeout  time.Duration
}

// Name returns the plugin's name.
func (e *preemptVerb) Name() string { return Name }

// SupportsPreemption returns true.
func (e *preemptVerb) SupportsPreemption() bool { return true }

// IsInterested returns true: victims of any pod may be protected, or belong to gangs.
func (e *preemptVerb) IsInterested(*v1.Pod) bool { return true }

// IsIgnorable returns false: without an answer no pod is evicted.
func (e *preemptVerb) IsIgnorable() bool { return false }

// ProcessPreemption returns the candidates that may be acted on.
func (e *preemptVerb) ProcessPreemption(pod *v1.Pod, candidates map[string]*extenderv1.Victims, _ fwk.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	document, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	question := &pb.PreemptRequest{Pod: document, Candidates: make(map[string]*pb.NodeVictims, len(candidates))}
	for node, victims := range candidates {
		told := &pb.NodeVictims{NumPdbViolations: victims.NumPDBViolations}
		for _, victim := range victims.Pods {
			told.PodUids = append(told.PodUids, string(victim.UID))
		}
		question.Candidates[node] = told
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.timeout)
	defer cancel()
	answer, err := e.extender.Preempt(ctx, question)
	if err != nil {
		return nil, fmt.Errorf("asking the extender: %w", err)
	}
	allowed := make(map[string]*extenderv1.Victims, len(answer.GetCandidates()))
	for node, told := range answer.GetCandidates() {
		victims, err := chosen(candidates[node], told)
		if err != nil {
			return nil, fmt.Errorf("the extender's answer for node %s: %w", node, err)
		}
		allowed[node] = victims
	}
	return allowed, nil
}

// chosen returns the pods of an answer, which have to be among those asked about.
func chosen(asked *extenderv1.Victims, told *pb.NodeVictims) (*extenderv1.Victims, error) {
	if asked == nil {
		return nil, fmt.Errorf("the node was not asked about")
	}
	victims := &extenderv1.Victims{NumPDBViolations: told.GetNumPdbViolations()}
	for _, uid := range told.GetPodUids() {
		index := slices.IndexFunc(asked.Pods, func(pod *v1.Pod) bool { return string(pod.UID) == uid })
		if index < 0 {
			return nil, fmt.Errorf("pod %s was not asked about", uid)
		}
		victims.Pods = append(victims.Pods, asked.Pods[index])
	}
	return victims, nil
}
