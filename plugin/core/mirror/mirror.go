package mirror

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/klog/v2"

	"podgroup-extender.io/plugin/core/pb"
)

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
	// silentBeats is after how many heartbeats without a message the mirror is not believed: one that
	// is just late on a busy machine is no cut.
	silentBeats = 3
)

// View is what the mirror shows at one moment.
type View struct {
	// State is what was told last; nil before anything was. It is kept when the stream is cut.
	State *State
	// Fresh says whether State may be believed: the stream is open and not silent.
	Fresh bool
	// Why tells, for a person, why it is not fresh.
	Why string
}

type told struct {
	state *State
	at    time.Time
	open  bool
	why   string
}

// Mirror follows WatchSeats, for as long as Run runs. It may be read by everybody at any time.
type Mirror struct {
	client    pb.WatchServiceClient
	heartbeat time.Duration
	changed   func(before, after *State)
	now       func() time.Time
	last      atomic.Pointer[told]
}

// New returns a mirror that is not fresh yet. changed is called, in Run, after each message that
// changed the state, and after a cut; before is then nil.
func New(client pb.WatchServiceClient, heartbeat time.Duration, changed func(before, after *State)) *Mirror {
	made := &Mirror{client: client, heartbeat: heartbeat, changed: changed, now: time.Now}
	made.last.Store(&told{why: "nothing was told yet"})
	return made
}

// View returns what the mirror shows now.
func (m *Mirror) View() View {
	last := m.last.Load()
	view := View{State: last.state, Fresh: last.open, Why: last.why}
	if last.open {
		if silent := m.now().Sub(last.at); silent > silentBeats*m.heartbeat {
			view.Fresh = false
			view.Why = "the stream of seats is silent"
		}
	}
	return view
}

// Run follows the stream, and opens it anew whenever it ends, until the context does.
func (m *Mirror) Run(ctx context.Context) {
	logger := klog.FromContext(ctx).WithName("seats")
	pause := firstPause
	for ctx.Err() == nil {
		began := m.last.Load()
		err := m.follow(ctx)
		last := m.last.Load()
		if last != began && last.open {
			pause = firstPause // it had worked
		}
		m.last.Store(&told{state: last.state, at: last.at, why: fmt.Sprintf("no stream of seats: %v", err)})
		if ctx.Err() != nil {
			return
		}
		logger.Info("The stream of seats ended, trying again", "err", err, "pause", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause + rand.N(pause/4+1)):
		}
		pause = min(2*pause, lastPause)
	}
}

// follow reads one stream to its end. A silent one is ended.
func (m *Mirror) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := silentBeats * m.heartbeat
	silence := time.AfterFunc(limit, func() {
		cancel(fmt.Errorf("nothing was heard for %v", limit))
	})
	defer silence.Stop()
	stream, err := m.client.WatchSeats(ctx, &pb.WatchSeatsRequest{Heartbeat: durationpb.New(m.heartbeat)})
	if err != nil {
		return err
	}
	var state *State // of this stream: what was told before it is no ground for a part
	for {
		message, err := stream.Recv()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		next, err := Next(state, message)
		if err != nil {
			return err
		}
		silence.Reset(limit)
		m.last.Store(&told{state: next, at: m.now(), open: true})
		if next != state {
			m.changed(state, next)
		}
		state = next
	}
}
