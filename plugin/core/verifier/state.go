package verifier

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// state is kube-scheduler's snapshot with pods taken away and others placed. Nodes that nothing
// happens to are the snapshot's own.
type state struct {
	fwk.SharedLister
	logger  klog.Logger
	list    []fwk.NodeInfo
	at      map[string]int
	changed map[string]fwk.NodeInfo
	// used counts the pods that were placed, less those taken away, of each claim.
	used map[string]int
}

func newState(logger klog.Logger, snapshot fwk.SharedLister) (*state, error) {
	all, err := snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	s := &state{
		SharedLister: snapshot,
		logger:       logger,
		list:         slices.Clone(all),
		at:           make(map[string]int, len(all)),
		changed:      map[string]fwk.NodeInfo{},
		used:         map[string]int{},
	}
	for at, node := range all {
		s.at[node.Node().Name] = at
	}
	return s, nil
}

// own returns a node that may be changed, nil where there is none.
func (s *state) own(name string) fwk.NodeInfo {
	if node, ok := s.changed[name]; ok {
		return node
	}
	at, ok := s.at[name]
	if !ok {
		return nil
	}
	node := s.list[at].Snapshot()
	s.changed[name], s.list[at] = node, node
	return node
}

func (s *state) place(pod *v1.Pod, name string) error {
	node := s.own(name)
	if node == nil {
		return nil
	}
	placed := pod.DeepCopy()
	placed.Spec.NodeName = name
	info, err := framework.NewPodInfo(placed)
	if err != nil {
		return err
	}
	node.AddPodInfo(info)
	s.count(pod, 1)
	return nil
}

func (s *state) takeAway(pod *v1.Pod) error {
	node := s.own(pod.Spec.NodeName)
	if node == nil {
		return nil
	}
	s.count(pod, -1)
	return node.RemovePod(s.logger, pod)
}

func (s *state) count(pod *v1.Pod, by int) {
	for key := range claimsOf(pod) {
		s.used[key] += by
	}
}

func claimsOf(pod *v1.Pod) map[string]bool {
	keys := map[string]bool{}
	for _, volume := range pod.Spec.Volumes {
		switch {
		case volume.PersistentVolumeClaim != nil:
			keys[pod.Namespace+"/"+volume.PersistentVolumeClaim.ClaimName] = true
		case volume.Ephemeral != nil:
			keys[pod.Namespace+"/"+pod.Name+"-"+volume.Name] = true
		}
	}
	return keys
}

// NodeInfos returns the nodes.
func (s *state) NodeInfos() fwk.NodeInfoLister { return s }

// StorageInfos returns what is known of claims.
func (s *state) StorageInfos() fwk.StorageInfoLister { return s }

// List returns all nodes.
func (s *state) List() ([]fwk.NodeInfo, error) { return s.list, nil }

// Get returns one node.
func (s *state) Get(name string) (fwk.NodeInfo, error) {
	if node, ok := s.changed[name]; ok {
		return node, nil
	}
	return s.SharedLister.NodeInfos().Get(name)
}

// HavePodsWithAffinityList returns the nodes with a pod that has affinity terms.
func (s *state) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	known, err := s.SharedLister.NodeInfos().HavePodsWithAffinityList()
	return s.with(known, fwk.NodeInfo.GetPodsWithAffinity), err
}

// HavePodsWithRequiredAntiAffinityList returns the nodes with a pod that keeps others off.
func (s *state) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	known, err := s.SharedLister.NodeInfos().HavePodsWithRequiredAntiAffinityList()
	return s.with(known, fwk.NodeInfo.GetPodsWithRequiredAntiAffinity), err
}

// wideLister and widePods are of Kubernetes 1.37 and newer.
type wideLister interface {
	HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error)
}
type widePods interface {
	GetPodsWithRequiredNonHostScopedAntiAffinity() []fwk.PodInfo
}

// HavePodsWithRequiredNonHostScopedAntiAffinityList returns the nodes with a pod that keeps others
// off more than its node.
func (s *state) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	lister, ok := s.SharedLister.NodeInfos().(wideLister)
	if !ok {
		return nil, nil
	}
	known, err := lister.HavePodsWithRequiredNonHostScopedAntiAffinityList()
	return s.with(known, func(node fwk.NodeInfo) []fwk.PodInfo {
		return node.(widePods).GetPodsWithRequiredNonHostScopedAntiAffinity()
	}), err
}

// with returns the nodes of a list of the snapshot's, as they are now.
func (s *state) with(known []fwk.NodeInfo, pods func(fwk.NodeInfo) []fwk.PodInfo) []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, 0, len(known)+len(s.changed))
	for _, node := range known {
		if _, ok := s.changed[node.Node().Name]; !ok {
			nodes = append(nodes, node)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.changed)) {
		if len(pods(s.changed[name])) > 0 {
			nodes = append(nodes, s.changed[name])
		}
	}
	return nodes
}

// IsPVCUsedByPods tells whether a pod that has a node names the claim NAMESPACE/NAME.
func (s *state) IsPVCUsedByPods(key string) bool {
	if by, ok := s.used[key]; !ok || by == 0 {
		return s.SharedLister.StorageInfos().IsPVCUsedByPods(key)
	}
	for _, node := range s.list {
		if node.GetPVCRefCounts()[key] > 0 {
			return true
		}
	}
	return false
}
