package core

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"podgroup-extender.io/plugin/core/mirror"
)

// Filter keeps a member on the nodes that the extender has named, and every other pod off the room
// that seats of equal or higher priority, and firm ones, need. As HTTP's filter it does so for good:
// whoever is evicted there, the room is promised.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil // there was no seat when PreFilter looked
	}
	made := data.(*podState)
	name := node.Node().Name
	if made.asked {
		if made.allowed == nil || made.allowed.Has(name) {
			return nil
		}
		why := made.refused[name]
		if why == "" {
			why = "the extender does not offer the node"
		}
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	held := made.seats.Nodes[name]
	if held == nil {
		return nil
	}
	if made.cut {
		made.kept.Store(true)
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "seats are held there, and the extender does not answer")
	}
	if why := p.noRoom(made.wants, made.priority, pod, held, node); why != "" {
		made.kept.Store(true)
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	return nil
}

// noRoom returns why a pod does not fit beside the seats of a node, "" when it does or none is in its way.
func (p *Plugin) noRoom(wants fwk.Resource, priority int32, pod *v1.Pod, held *mirror.Node, node fwk.NodeInfo) string {
	var against []mirror.Seat
	for _, seat := range held.Seats {
		if seat.Pod != pod.UID && (seat.Priority >= priority || seat.Firm) {
			against = append(against, seat)
		}
	}
	if len(against) == 0 {
		return ""
	}
	here := make(map[types.UID]struct{}, len(node.GetPods()))
	for _, info := range node.GetPods() {
		here[info.GetPod().UID] = struct{}{}
	}
	claims, gangs, volumes, devices := mirror.Amounts{}, []string{}, false, false
	for _, seat := range against {
		if _, taken := here[seat.Pod]; taken {
			continue // assumed, or nominated here: the node's requests have it
		}
		add(claims, seat.Claims(here), 1)
		volumes, devices = volumes || seat.Volumes, devices || seat.Devices
		if !slices.Contains(gangs, seat.Gang) {
			gangs = append(gangs, seat.Gang)
		}
	}
	if len(gangs) == 0 {
		return ""
	}
	limited := ""
	switch {
	case devices && p.claimsDevices(pod, wants, node):
		limited = "devices"
	case volumes && hasVolumes(pod):
		limited = "volumes"
	}
	if limited != "" {
		slices.Sort(gangs)
		return fmt.Sprintf("its room is held for %s, whose members need %s too", some(named(gangs, pod.Namespace)), limited)
	}
	for uid, room := range held.Leaving {
		if _, there := here[uid]; there {
			add(claims, room, -1)
		}
	}
	if short := short(wants, claims, node); short != "" {
		slices.Sort(gangs)
		return fmt.Sprintf("its room is held for %s (short of %s)", some(named(gangs, pod.Namespace)), short)
	}
	return ""
}

// hasVolumes tells whether a pod has volumes of which a node may take only so many, or one only once.
// The extender's own filter tells the same (testdata/limited.json).
func hasVolumes(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume v1.Volume) bool {
		return volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil || volume.GCEPersistentDisk != nil ||
			volume.AWSElasticBlockStore != nil || volume.RBD != nil || volume.ISCSI != nil
	})
}

// claimsDevices tells whether kube-scheduler allocates devices for a pod on this node: for a claim, or
// for a resource that a DeviceClass names and that the node does not offer itself.
func (p *Plugin) claimsDevices(pod *v1.Pod, wants fwk.Resource, node fwk.NodeInfo) bool {
	if len(pod.Spec.ResourceClaims) > 0 {
		return true
	}
	manager := p.handle.SharedDRAManager()
	for name := range wants.GetScalarResources() {
		if strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix) {
			return true
		}
		if node.GetAllocatable().GetScalarResources()[name] == 0 && manager != nil && manager.DeviceClassResolver().GetDeviceClass(name) != nil {
			return true
		}
	}
	return false
}

// short returns a resource that the pod asks for and of which too little is left beside the claims.
func short(wants fwk.Resource, claims mirror.Amounts, node fwk.NodeInfo) string {
	has, used := node.GetAllocatable(), node.GetRequested()
	lacks := func(name string, want, has, used int64) bool {
		// Where the node has none of it, or seats claim none, other plugins tell: devices may be
		// allocated for it.
		return want > 0 && has > 0 && claims[name] > 0 && want > has-used-claims[name]
	}
	switch {
	case lacks("pods", 1, int64(has.GetAllowedPodNumber()), int64(len(node.GetPods()))):
		return "pods"
	case lacks("cpu", wants.GetMilliCPU(), has.GetMilliCPU(), used.GetMilliCPU()):
		return "cpu"
	case lacks("memory", wants.GetMemory(), has.GetMemory(), used.GetMemory()):
		return "memory"
	case lacks("ephemeral-storage", wants.GetEphemeralStorage(), has.GetEphemeralStorage(), used.GetEphemeralStorage()):
		return "ephemeral-storage"
	}
	names := make([]string, 0, len(wants.GetScalarResources()))
	for name, want := range wants.GetScalarResources() {
		if lacks(string(name), want, has.GetScalarResources()[name], used.GetScalarResources()[name]) {
			names = append(names, string(name))
		}
	}
	slices.Sort(names) // the text of a refusal must not change from attempt to attempt
	return strings.Join(names, ", ")
}

func add(to, what mirror.Amounts, sign int64) {
	for name, amount := range what {
		to[name] += sign * amount
	}
}

// named returns the gangs of one namespace, and how many others there are: those are not for its tenant
// to read. A gang's text is dialect:namespace/name.
func named(gangs []string, namespace string) []string {
	own := slices.DeleteFunc(slices.Clone(gangs), func(gang string) bool {
		_, rest, _ := strings.Cut(gang, ":")
		of, _, _ := strings.Cut(rest, "/")
		return of != namespace
	})
	if others := len(gangs) - len(own); others > 0 {
		own = append(own, fmt.Sprintf("%d of other namespaces", others))
	}
	return own
}

// some returns a few names as text.
func some(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
