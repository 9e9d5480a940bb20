package core

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"podgroup-extender.io/plugin/core/mirror"
)

// barrierLook is how often those who wait are looked at, beside each change of the mirror.
const barrierLook = 100 * time.Millisecond

// arrival is a member that kube-scheduler has assumed on its seat.
type arrival struct {
	node  string
	grant *grant
	// seen is the mirror's term when it arrived.
	seen    string
	allowed bool
}

// waiting is what the barrier needs of the framework.
type waiting interface {
	GetWaitingPod(uid types.UID) fwk.WaitingPod
}

// barrier lets the members of a plan through Permit together: when every untaken seat of the gang has
// its member assumed. No pod that was placed without a call can then be in the way of any.
type barrier struct {
	handle waiting
	view   func() mirror.View
	mutex  sync.Mutex
	gangs  map[string]map[types.UID]*arrival
	signal chan struct{}
}

func newBarrier(handle waiting, view func() mirror.View) *barrier {
	return &barrier{
		handle: handle, view: view, gangs: map[string]map[types.UID]*arrival{}, signal: make(chan struct{}, 1),
	}
}

// arrive notes a member; true says that all are there and it need not wait.
func (b *barrier) arrive(pod types.UID, node string, given *grant) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	members := b.gangs[given.gang]
	if members == nil {
		members = map[types.UID]*arrival{}
		b.gangs[given.gang] = members
	}
	here := &arrival{node: node, grant: given}
	if state := b.view().State; state != nil {
		here.seen = state.Term
	}
	members[pod] = here
	b.settle(given.gang)
	return here.allowed
}

// leave forgets a member: it is bound, or was refused.
func (b *barrier) leave(pod types.UID, gang string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	delete(b.gangs[gang], pod)
	if len(b.gangs[gang]) == 0 {
		delete(b.gangs, gang)
	}
}

func (b *barrier) wake() {
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

func (b *barrier) run(ctx context.Context) {
	ticker := time.NewTicker(barrierLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.signal:
		case <-ticker.C:
		}
		b.look()
	}
}

// look settles every gang that somebody waits for.
func (b *barrier) look() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for gang := range b.gangs {
		b.settle(gang)
	}
}

// settle lets a gang's members through, or those back whose seat is no more.
func (b *barrier) settle(gang string) {
	members := b.gangs[gang]
	view := b.view()
	if !view.Fresh {
		return
	}
	for _, here := range members {
		if here.ahead(view.State) {
			return
		}
	}
	wanted := view.State.Gang(gang)
	complete := true
	for uid := range wanted {
		if members[uid] == nil {
			complete = false
		}
	}
	for uid, here := range members {
		if !here.allowed {
			seat, held := view.State.Seat(uid)
			if !held || seat.Node != here.node {
				b.refuse(uid, fmt.Sprintf("%s: its seat is not on %s any more", gang, here.node))
				continue
			}
			here.allowed = complete
		}
		// Again each time: one that has just arrived is not among the waiting yet.
		if here.allowed {
			if pod := b.handle.GetWaitingPod(uid); pod != nil {
				pod.Allow(Name)
			}
		}
	}
}

func (b *barrier) refuse(uid types.UID, why string) {
	if pod := b.handle.GetWaitingPod(uid); pod != nil {
		pod.Reject(Name, why)
	}
}

// ahead says whether the mirror does not show yet what the seat was given by. Once it shows another term
// than it did, and not the seat's, the seats are those of a later life.
func (a *arrival) ahead(state *mirror.State) bool {
	if state.Term == a.grant.term {
		return state.Version < a.grant.version
	}
	return state.Term == a.seen && a.seen != a.grant.term
}
