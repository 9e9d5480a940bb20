package core

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"podgroup-extender.io/plugin/core/mirror"
	"podgroup-extender.io/plugin/core/pb"
)

// permitted are pods that wait at Permit, as the framework has them.
type permitted map[types.UID]*waitingPod

type waitingPod struct {
	fwk.WaitingPod
	allowed  bool
	rejected string
}

func (w *waitingPod) Allow(string) { w.allowed = true }

func (w *waitingPod) Reject(_, why string) bool {
	w.rejected = why
	return true
}

func (p permitted) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if found, waits := p[uid]; waits {
		return found
	}
	return nil
}

func two(t *testing.T, version uint64) *mirror.State {
	t.Helper()
	state := seats(t, held("n1", "u1", 10, 1, false), held("n2", "u2", 10, 1, false))
	state.Version = version
	return state
}

func TestNobodyGoesOnBeforeAllAreThere(t *testing.T) {
	pods, view := permitted{}, mirror.View{State: two(t, 5), Fresh: true}
	made := newBarrier(pods, func() mirror.View { return view })
	given := &grant{gang: "g", term: "a", version: 5}
	if made.arrive("u1", "n1", given) {
		t.Fatal("the other one is missing")
	}
	pods["u1"] = &waitingPod{}
	made.look()
	if pods["u1"].allowed {
		t.Fatal("the other one is still missing")
	}
	if !made.arrive("u2", "n2", given) || !pods["u1"].allowed {
		t.Error("all are there")
	}
}

func TestAMirrorThatIsBehindOrCutLetsNobodyThrough(t *testing.T) {
	old := seats(t, held("n1", "u1", 10, 1, false)) // the plan's second seat is not told yet
	old.Version = 4
	pods, view := permitted{}, mirror.View{State: old, Fresh: true}
	made := newBarrier(pods, func() mirror.View { return view })
	if made.arrive("u1", "n1", &grant{gang: "g", term: "a", version: 5}) {
		t.Fatal("version 4 does not know with whom u1 starts")
	}
	pods["u1"] = &waitingPod{}
	view = mirror.View{State: two(t, 5)}
	made.look()
	view.Fresh = true
	made.look()
	if pods["u1"].allowed || pods["u1"].rejected != "" {
		t.Errorf("%+v", pods["u1"])
	}
	if !made.arrive("u2", "n2", &grant{gang: "g", term: "a", version: 5}) {
		t.Error("all are there")
	}
}

func TestASeatOfAnotherTermWaitsForItsTerm(t *testing.T) {
	view := mirror.View{State: seats(t, held("n1", "u1", 10, 1, false)), Fresh: true}
	pods := permitted{}
	made := newBarrier(pods, func() mirror.View { return view })
	if made.arrive("u1", "n1", &grant{gang: "g", term: "b", version: 1}) {
		t.Fatal("the mirror shows the term before")
	}
	pods["u1"] = &waitingPod{}
	made.look()
	if pods["u1"].allowed {
		t.Fatal("the mirror still shows the term before")
	}
	later, _ := mirror.Next(nil, &pb.WatchSeatsResponse{
		Term: "b", Version: 1, Full: true, Nodes: []*pb.NodeSeats{held("n1", "u1", 10, 1, false)},
	})
	view = mirror.View{State: later, Fresh: true}
	made.look()
	if !pods["u1"].allowed {
		t.Error("it shows its term")
	}
}

func TestWhoseSeatIsGoneGoesBack(t *testing.T) {
	pods, view := permitted{}, mirror.View{State: two(t, 5), Fresh: true}
	made := newBarrier(pods, func() mirror.View { return view })
	given := &grant{gang: "g", term: "a", version: 5}
	made.arrive("u1", "n1", given)
	pods["u1"] = &waitingPod{}
	moved := seats(t, held("n3", "u1", 10, 1, false))
	moved.Version = 6
	view.State = moved
	made.look()
	if pods["u1"].rejected == "" || pods["u1"].allowed {
		t.Errorf("its seat is on n3 now: %+v", pods["u1"])
	}
	made.leave("u1", "g")
	if len(made.gangs) != 0 {
		t.Error("a gang that nobody waits for is forgotten")
	}
}

func TestWhileTheMirrorIsCutAWholeGangWaits(t *testing.T) {
	pods, view := permitted{}, mirror.View{State: two(t, 5)}
	made := newBarrier(pods, func() mirror.View { return view })
	given := &grant{gang: "g", term: "a", version: 5}
	if made.arrive("u1", "n1", given) || made.arrive("u2", "n2", given) {
		t.Fatal("whether the seats still are so is not known")
	}
	pods["u1"], pods["u2"] = &waitingPod{}, &waitingPod{}
	view.Fresh = true
	made.look()
	if !pods["u1"].allowed || !pods["u2"].allowed {
		t.Error("all are there")
	}
}
