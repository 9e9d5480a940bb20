package verifier

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"
)

// pool is a pool of devices of a driver.
type pool struct{ driver, name string }

// claims is kube-scheduler's tracker of ResourceClaims with claims freed and others allocated. It
// shows the devices of one node at a time: no filter looks at another one.
type claims struct {
	fwk.ResourceClaimTracker
	slices  map[pool][]*resourceapi.ResourceSlice
	of      map[string][]pool
	shared  []pool
	changed map[string]*resourceapi.ResourceClaim
	state   map[pool]*structured.AllocatedState
	node    string
	// consumable: is capacity of a device given to several claims?
	consumable bool
}

// gatherTries bounds how often a state is asked for that changes meanwhile.
const gatherTries = 100

func newClaims(manager fwk.SharedDRAManager) (*claims, error) {
	c := &claims{
		ResourceClaimTracker: manager.ResourceClaims(),
		slices:               map[pool][]*resourceapi.ResourceSlice{},
		of:                   map[string][]pool{},
		changed:              map[string]*resourceapi.ResourceClaim{},
		state:                map[pool]*structured.AllocatedState{},
		consumable:           utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
	}
	all, err := manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, err
	}
	// A pool is shown whole or not at all: it is complete only with all of its slices.
	known := map[pool]sets.Set[string]{}
	for _, slice := range all {
		at := pool{slice.Spec.Driver, slice.Spec.Pool.Name}
		if c.slices[at] = append(c.slices[at], slice); known[at] == nil {
			known[at] = sets.New[string]()
		}
		known[at].Insert(ptr.Deref(slice.Spec.NodeName, ""))
	}
	for at, nodes := range known {
		if nodes.Has("") {
			c.shared = append(c.shared, at)
			continue
		}
		for node := range nodes {
			c.of[node] = append(c.of[node], at)
		}
	}
	gathered, err := gather(c.ResourceClaimTracker)
	if err != nil {
		return nil, err
	}
	for device := range gathered.AllocatedDevices {
		c.at(device).AllocatedDevices.Insert(device)
	}
	for share := range gathered.AllocatedSharedDeviceIDs {
		c.at(share.GetDeviceID()).AllocatedSharedDeviceIDs.Insert(share)
	}
	for device, capacity := range gathered.AggregatedCapacity {
		c.at(device).AggregatedCapacity[device] = capacity
	}
	return c, nil
}

func gather(tracker fwk.ResourceClaimTracker) (*structured.AllocatedState, error) {
	var err error
	for range gatherTries {
		var gathered *structured.AllocatedState
		if gathered, err = tracker.GatherAllocatedState(); err == nil {
			return gathered, nil
		}
		time.Sleep(time.Millisecond)
	}
	return nil, err
}

func (c *claims) at(device structured.DeviceID) *structured.AllocatedState {
	key := pool{device.Driver.String(), device.Pool.String()}
	if c.state[key] == nil {
		c.state[key] = empty()
	}
	return c.state[key]
}

func empty() *structured.AllocatedState {
	return &structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
}

// free takes the pods out of all claims. What nobody else uses is not allocated any more.
func (c *claims) free(gone sets.Set[types.UID]) error {
	all, err := c.List()
	if err != nil {
		return err
	}
	for _, claim := range all {
		kept := make([]resourceapi.ResourceClaimConsumerReference, 0, len(claim.Status.ReservedFor))
		for _, user := range claim.Status.ReservedFor {
			if !gone.Has(user.UID) {
				kept = append(kept, user)
			}
		}
		if len(kept) == len(claim.Status.ReservedFor) {
			continue
		}
		changed := claim.DeepCopy()
		changed.Status.ReservedFor = kept
		if len(kept) == 0 {
			c.count(claim, true)
			changed.Status.Allocation = nil
		}
		c.changed[claim.Namespace+"/"+claim.Name] = changed
	}
	return nil
}

// count adds the devices of a claim to those that are taken, or takes them away.
func (c *claims) count(claim *resourceapi.ResourceClaim, gone bool) {
	if claim.Status.Allocation == nil {
		return
	}
	for _, result := range claim.Status.Allocation.Devices.Results {
		if ptr.Deref(result.AdminAccess, false) {
			continue
		}
		device := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		state := c.at(device)
		switch {
		case c.consumable && result.ShareID != nil:
			share, capacity := structured.MakeSharedDeviceID(device, result.ShareID), structured.NewDeviceConsumedCapacity(device, result.ConsumedCapacity)
			if gone {
				state.AllocatedSharedDeviceIDs.Delete(share)
				state.AggregatedCapacity.Remove(capacity)
			} else {
				state.AllocatedSharedDeviceIDs.Insert(share)
				state.AggregatedCapacity.Insert(capacity)
			}
		case gone:
			state.AllocatedDevices.Delete(device)
		default:
			state.AllocatedDevices.Insert(device)
		}
	}
}

// use notes that a pod has one of its claims.
func (c *claims) use(pod *v1.Pod, name string) error {
	claim, err := c.Get(pod.Namespace, name)
	if err != nil {
		return err
	}
	changed := claim.DeepCopy()
	changed.Status.ReservedFor = append(changed.Status.ReservedFor,
		resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	c.changed[claim.Namespace+"/"+claim.Name] = changed
	return nil
}

func (c *claims) pools() []pool { return append(append([]pool(nil), c.of[c.node]...), c.shared...) }

// ListWithDeviceTaintRules returns the slices that matter to the node.
func (c *claims) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	var found []*resourceapi.ResourceSlice
	for _, at := range c.pools() {
		found = append(found, c.slices[at]...)
	}
	return found, nil
}

// List returns all claims.
func (c *claims) List() ([]*resourceapi.ResourceClaim, error) {
	all, err := c.ResourceClaimTracker.List()
	for at, claim := range all {
		if changed := c.changed[claim.Namespace+"/"+claim.Name]; changed != nil {
			all[at] = changed
		}
	}
	return all, err
}

// Get returns one claim.
func (c *claims) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	if changed := c.changed[namespace+"/"+name]; changed != nil {
		return changed, nil
	}
	return c.ResourceClaimTracker.Get(namespace, name)
}

// ListAllAllocatedDevices returns what is taken of the devices that matter to the node.
func (c *claims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	gathered, err := c.GatherAllocatedState()
	if err != nil {
		return nil, err
	}
	for share := range gathered.AllocatedSharedDeviceIDs {
		gathered.AllocatedDevices.Insert(share.GetDeviceID())
	}
	return gathered.AllocatedDevices, nil
}

// GatherAllocatedState returns the same with capacities.
func (c *claims) GatherAllocatedState() (*structured.AllocatedState, error) {
	gathered := empty()
	for _, at := range c.pools() {
		if state := c.state[at]; state != nil {
			gathered.AllocatedDevices = gathered.AllocatedDevices.Union(state.AllocatedDevices)
			gathered.AllocatedSharedDeviceIDs = gathered.AllocatedSharedDeviceIDs.Union(state.AllocatedSharedDeviceIDs)
			for device, capacity := range state.AggregatedCapacity {
				gathered.AggregatedCapacity[device] = capacity.Clone()
			}
		}
	}
	return gathered, nil
}

// SignalClaimPendingAllocation takes the devices that Reserve has chosen: for the next members the
// claim counts as allocated.
func (c *claims) SignalClaimPendingAllocation(_ types.UID, claim *resourceapi.ResourceClaim) error {
	if claim.Status.Allocation == nil {
		return fmt.Errorf("claim %s/%s: no devices were chosen", claim.Namespace, claim.Name)
	}
	c.count(claim, false)
	// The claim of extended resources has no name of its own before it is written.
	if claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "" {
		c.changed[claim.Namespace+"/"+claim.Name] = claim
	}
	return nil
}

// GetPendingAllocation returns none: what was chosen counts as written.
func (c *claims) GetPendingAllocation(types.UID) *resourceapi.AllocationResult { return nil }

// MaybeRemoveClaimPendingAllocation does nothing: the whole state is dropped.
func (c *claims) MaybeRemoveClaimPendingAllocation(types.UID, bool) bool { return false }

var errWrites = errors.New("a claim is written while a plan is judged")

// AssumeClaimAfterAPICall refuses: nothing is written.
func (c *claims) AssumeClaimAfterAPICall(*resourceapi.ResourceClaim) error { return errWrites }

// AssumedClaimRestore does nothing.
func (c *claims) AssumedClaimRestore(string, string) {}
