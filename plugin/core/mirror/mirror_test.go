package mirror

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"podgroup-extender.io/plugin/core/pb"
)

func node(name string, seats ...*pb.HeldSeat) *pb.NodeSeats {
	return &pb.NodeSeats{NodeName: name, Seats: seats}
}

func seat(pod, gang string) *pb.HeldSeat {
	return &pb.HeldSeat{
		PodUid: pod, Gang: gang, Priority: 10, Requests: []*pb.ResourceAmount{{Name: "cpu", Amount: 500}},
	}
}

func full(term string, version uint64, nodes ...*pb.NodeSeats) *pb.WatchSeatsResponse {
	return &pb.WatchSeatsResponse{Term: term, Version: version, Full: true, Nodes: nodes, GangKeys: []string{"key"}}
}

func part(term string, version uint64, nodes ...*pb.NodeSeats) *pb.WatchSeatsResponse {
	return &pb.WatchSeatsResponse{Term: term, Version: version, Nodes: nodes}
}

func must(t *testing.T, state *State, message *pb.WatchSeatsResponse) *State {
	t.Helper()
	next, err := Next(state, message)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestPartsChangeWhatTheyNameAndNothingElse(t *testing.T) {
	first := must(t, nil, full("a", 3, node("n1", seat("u1", "g")), node("n2", seat("u2", "g"))))
	second := must(t, first, part("a", 7, node("n1"), node("n3", seat("u3", "h"))))
	if len(first.Nodes) != 2 || first.Version != 3 {
		t.Errorf("a state that was shown has changed: %v", first)
	}
	if _, there := second.Nodes["n1"]; there || len(second.Nodes) != 2 {
		t.Errorf("n1 is not forgotten: %v", second.Nodes)
	}
	if _, seated := second.Seat("u1"); seated {
		t.Error("u1 still has a seat")
	}
	if held, _ := second.Seat("u3"); held.Node != "n3" || held.Requests["cpu"] != 500 {
		t.Errorf("u3: %v", held)
	}
	if gang := second.Gang("g"); len(gang) != 1 {
		t.Errorf("gang g: %v", gang)
	}
	if _, known := second.Keys["key"]; !known {
		t.Error("the keys are told in full messages only, and kept")
	}
	if same := must(t, second, part("a", 7)); same != second {
		t.Error("a heartbeat makes no other state")
	}
	anew := must(t, second, full("b", 1, node("n9", seat("u9", "k"))))
	if len(anew.Nodes) != 1 || anew.Gang("h") != nil {
		t.Errorf("a full message forgets everything else: %v", anew.Nodes)
	}
}

func TestWhatDoesNotFollowOnIsAGap(t *testing.T) {
	first := must(t, nil, full("a", 3))
	for name, message := range map[string]*pb.WatchSeatsResponse{
		"another term":     part("b", 4),
		"an older version": part("a", 2, node("n1")),
	} {
		if _, err := Next(first, message); !errors.Is(err, ErrGap) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Next(nil, part("a", 3)); !errors.Is(err, ErrGap) {
		t.Errorf("a part comes first: %v", err)
	}
}

func TestACutMirrorIsNotBelievedAndComesBack(t *testing.T) {
	host, client := serve(t)
	changes := make(chan *State, 16)
	seats := New(client, 10*time.Second, func(_, after *State) { changes <- after })
	if view := seats.View(); view.Fresh || view.State != nil {
		t.Fatalf("nothing was told: %+v", view)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go seats.Run(ctx)
	host.messages <- full("a", 1, node("n1", seat("u1", "g")))
	<-changes
	eventually(t, "fresh", func() bool { return seats.View().Fresh })

	host.cut <- struct{}{}
	eventually(t, "cut", func() bool { return !seats.View().Fresh })
	view := seats.View()
	if _, known := view.State.Seat(types.UID("u1")); !known || view.Why == "" {
		t.Errorf("what was known is kept, with a reason: %+v", view)
	}

	host.messages <- full("b", 1)
	<-changes
	eventually(t, "fresh again", func() bool { return seats.View().Fresh })
	if len(seats.View().State.Nodes) != 0 {
		t.Error("the seats of before are still there")
	}
	if opened := host.opened(); opened != 2 {
		t.Errorf("%d streams", opened)
	}
}

func TestAGapOpensTheStreamAnew(t *testing.T) {
	host, client := serve(t)
	seats := New(client, 10*time.Second, func(_, _ *State) {})
	go seats.Run(t.Context())
	host.messages <- full("a", 5)
	eventually(t, "fresh", func() bool { return seats.View().Fresh })
	host.messages <- part("a", 4, node("n1"))
	eventually(t, "another stream", func() bool { return host.opened() == 2 })
	// What is told first in it must be the whole state: the old one is no ground.
	host.messages <- part("a", 6, node("n1"))
	eventually(t, "a third stream", func() bool { return host.opened() == 3 })
	if seats.View().Fresh {
		t.Error("a part of an unknown state is believed")
	}
	host.messages <- full("a", 7)
	eventually(t, "fresh again", func() bool { return seats.View().Fresh })
}

func TestSilenceIsACut(t *testing.T) {
	host, client := serve(t)
	seats := New(client, 100*time.Millisecond, func(_, _ *State) {})
	go seats.Run(t.Context())
	host.messages <- full("a", 1)
	// The stream stays open and says nothing: it is given up, and asked for anew.
	eventually(t, "another stream", func() bool { return host.opened() >= 2 })
	if seats.View().Fresh {
		t.Error("it is still believed")
	}
}
