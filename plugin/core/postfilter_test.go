package core

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"podgroup-extender.io/plugin/core/pb"
)

func TestPreemptNamesCandidatesAndTakesNoOthers(t *testing.T) {
	low, other := pod("low", 1, "1", nil), pod("other", 1, "1", nil)
	candidates := map[string]*extenderv1.Victims{
		"n1": {Pods: []*v1.Pod{low, other}, NumPDBViolations: 1}, "n2": {Pods: []*v1.Pod{other}},
	}
	var answer *pb.PreemptResponse
	extender := &verbs{preempt: func(asked *pb.PreemptRequest) (*pb.PreemptResponse, error) {
		if told := asked.GetCandidates()["n1"]; len(told.GetPodUids()) != 2 || told.GetNumPdbViolations() != 1 {
			t.Errorf("asked %v", asked.GetCandidates())
		}
		if answer == nil {
			return nil, errors.New("gone")
		}
		return answer, nil
	}}
	verb := &preemptVerb{extender: extender, timeout: time.Second}
	if _, err := verb.ProcessPreemption(low, candidates, nil); err == nil || verb.IsIgnorable() {
		t.Error("without an answer no pod is evicted")
	}
	answer = &pb.PreemptResponse{Candidates: map[string]*pb.NodeVictims{"n1": {PodUids: []string{"low"}}}}
	allowed, err := verb.ProcessPreemption(low, candidates, nil)
	if err != nil || len(allowed) != 1 || len(allowed["n1"].Pods) != 1 || allowed["n1"].Pods[0] != low {
		t.Errorf("%v %v", allowed, err)
	}
	if !extender.deadline {
		t.Error("no deadline")
	}
	for _, wrong := range []map[string]*pb.NodeVictims{
		{"n1": {PodUids: []string{"somebody"}}}, {"n9": {PodUids: []string{"low"}}},
	} {
		answer = &pb.PreemptResponse{Candidates: wrong}
		if _, err := verb.ProcessPreemption(low, candidates, nil); err == nil {
			t.Errorf("%v is believed", wrong)
		}
	}
}
