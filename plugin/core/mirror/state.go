// Package mirror keeps what WatchSeats tells: the seats held, by node, and whether that may be believed.
package mirror

import (
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"podgroup-extender.io/plugin/core/pb"
)

// ErrGap says that a message does not lead on from what is known: everything has to be told anew.
var ErrGap = errors.New("the stream of seats does not follow on")

// Amounts are resources by name: whole units, cpu in thousandths.
type Amounts map[string]int64

// Seat is a seat that is promised and not taken yet.
type Seat struct {
	Pod      types.UID
	Node     string
	Gang     string
	Priority int32
	// Firm seats are held against pods of any priority.
	Firm     bool
	Requests Amounts
	// Awaited are pods that are there still and whose room this seat alone counts on; Asked is then
	// what it asks for in all.
	Awaited map[types.UID]Amounts
	Asked   Amounts
	// Volumes and Devices: others that need some are kept off, whatever room there is.
	Volumes bool
	Devices bool
}

// Claims returns what the seat takes of its node while the pods here are on it: what is awaited is
// nobody's to take once those who had it are gone, whenever it is told that they are.
func (s Seat) Claims(here map[types.UID]struct{}) Amounts {
	if len(s.Awaited) == 0 {
		return s.Requests
	}
	claims := maps.Clone(s.Asked)
	for uid, room := range s.Awaited {
		if _, there := here[uid]; !there {
			continue
		}
		for name := range claims {
			claims[name] -= room[name]
		}
	}
	for name, amount := range claims {
		claims[name] = max(0, amount)
	}
	return claims
}

// Node is what is held on one node.
type Node struct {
	Seats []Seat
	// Leaving are pods that are there still and whose room the seats count on.
	Leaving map[types.UID]Amounts
}

// State is what was told at one version of one term. It is never changed once it is shown.
type State struct {
	Term    string
	Version uint64
	Nodes   map[string]*Node
	// Keys are those labels and annotations of which a member of a gang has at least one.
	Keys map[string]struct{}

	seats map[types.UID]Seat
	gangs map[string]map[types.UID]struct{}
}

// Seat returns the seat of a pod.
func (s *State) Seat(pod types.UID) (Seat, bool) {
	seat, found := s.seats[pod]
	return seat, found
}

// Gang returns the members of a gang whose seats are not taken.
func (s *State) Gang(name string) map[types.UID]struct{} {
	return s.gangs[name]
}

// Next returns the state after a message; s is nil before the first one. ErrGap if it does not
// follow: a part of a state that was never told, of another term, or of an older version.
func Next(s *State, told *pb.WatchSeatsResponse) (*State, error) {
	next := &State{Term: told.GetTerm(), Version: told.GetVersion(), Nodes: map[string]*Node{}}
	if told.GetFull() {
		next.Keys = make(map[string]struct{}, len(told.GetGangKeys()))
		for _, key := range told.GetGangKeys() {
			next.Keys[key] = struct{}{}
		}
	} else {
		if s == nil {
			return nil, fmt.Errorf("%w: the first message is not the whole state", ErrGap)
		}
		if s.Term != next.Term {
			return nil, fmt.Errorf("%w: term %q after %q", ErrGap, next.Term, s.Term)
		}
		if next.Version < s.Version {
			return nil, fmt.Errorf("%w: version %d after %d", ErrGap, next.Version, s.Version)
		}
		if len(told.GetNodes()) == 0 && next.Version == s.Version {
			return s, nil
		}
		next.Keys = s.Keys
		next.Nodes = maps.Clone(s.Nodes)
	}
	for _, node := range told.GetNodes() {
		if len(node.GetSeats()) == 0 {
			delete(next.Nodes, node.GetNodeName())
			continue
		}
		next.Nodes[node.GetNodeName()] = read(node)
	}
	next.index()
	return next, nil
}

func (s *State) index() {
	s.seats = map[types.UID]Seat{}
	s.gangs = map[string]map[types.UID]struct{}{}
	for _, node := range s.Nodes {
		for _, seat := range node.Seats {
			s.seats[seat.Pod] = seat
			members := s.gangs[seat.Gang]
			if members == nil {
				members = map[types.UID]struct{}{}
				s.gangs[seat.Gang] = members
			}
			members[seat.Pod] = struct{}{}
		}
	}
}

func read(told *pb.NodeSeats) *Node {
	node := &Node{Leaving: leaving(told.GetLeaving())}
	for _, seat := range told.GetSeats() {
		node.Seats = append(node.Seats, Seat{
			Pod:      types.UID(seat.GetPodUid()),
			Node:     told.GetNodeName(),
			Gang:     seat.GetGang(),
			Priority: seat.GetPriority(),
			Firm:     seat.GetFirm(),
			Requests: amounts(seat.GetRequests()),
			Awaited:  leaving(seat.GetAwaited()),
			Asked:    amounts(seat.GetAsked()),
			Volumes:  seat.GetVolumes(),
			Devices:  seat.GetDevices(),
		})
	}
	return node
}

func leaving(told []*pb.LeavingPod) map[types.UID]Amounts {
	found := make(map[types.UID]Amounts, len(told))
	for _, pod := range told {
		found[types.UID(pod.GetPodUid())] = amounts(pod.GetRequests())
	}
	return found
}

func amounts(told []*pb.ResourceAmount) Amounts {
	found := make(Amounts, len(told))
	for _, each := range told {
		found[each.GetName()] = each.GetAmount()
	}
	return found
}
