package verifier

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/ptr"

	"podgroup-extender.io/plugin/core/pb"
)

var minor = Minor{
	Cache: func(ctx context.Context) cache.Cache { return cache.New(ctx, nil, false, false) },
	Informers: func(client clientset.Interface) informers.SharedInformerFactory {
		return scheduler.NewInformerFactory(client, 0, nil)
	},
	TaintRules: func(options *tracker.Options, factory informers.SharedInformerFactory) {
		options.TaintInformer = factory.Resource().V1().DeviceTaintRules()
	},
}

type object = apiruntime.Object

// made returns a service for a cluster of these objects.
func made(t testing.TB, objects ...object) *service { return madeWith(t, nil, "", objects...) }

func madeWith(t testing.TB, others runtime.Registry, plugin string, objects ...object) *service {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	known, err := newCluster(ctx, fake.NewClientset(objects...), minor)
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	if plugin != "" {
		set := &defaults.Profiles[0].Plugins.MultiPoint
		set.Enabled = append(set.Enabled, config.Plugin{Name: plugin})
	}
	judge, err := newJudge(ctx, known, defaults.Profiles, others)
	if err != nil {
		t.Fatal(err)
	}
	if err := known.start(ctx); err != nil {
		t.Fatal(err)
	}
	return newService(judge, newSigns(), 10*time.Second)
}

func node(name string, change ...func(*v1.Node)) *v1.Node {
	made := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Status:     v1.NodeStatus{Allocatable: amounts("cpu", "4", "pods", "110")},
	}
	for _, each := range change {
		each(made)
	}
	return made
}

func zone(name string) func(*v1.Node) {
	return func(made *v1.Node) { made.Labels["topology.kubernetes.io/zone"] = name }
}

func pod(name string, change ...func(*v1.Pod)) *v1.Pod {
	made := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "a"}},
		Spec: v1.PodSpec{
			SchedulerName: "default-scheduler",
			Containers:    []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: amounts("cpu", "1")}}},
		},
	}
	for _, each := range change {
		each(made)
	}
	return made
}

func asks(pairs ...string) func(*v1.Pod) {
	return func(made *v1.Pod) {
		made.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: amounts(pairs...), Limits: amounts(pairs...)}
	}
}

func on(name string) func(*v1.Pod) { return func(made *v1.Pod) { made.Spec.NodeName = name } }

func amounts(pairs ...string) v1.ResourceList {
	list := v1.ResourceList{}
	for at := 0; at < len(pairs); at += 2 {
		list[v1.ResourceName(pairs[at])] = resource.MustParse(pairs[at+1])
	}
	return list
}

// plan is "POD>NODE" for members, "-POD" for victims, "+POD>NODE" for seats of others.
func plan(words ...string) *pb.VerifyRequest {
	asked := &pb.VerifyRequest{}
	for _, word := range words {
		name, at, _ := strings.Cut(strings.TrimLeft(word, "+-"), ">")
		reference := &pb.PodReference{Namespace: "default", Name: name, Uid: name}
		switch word[0] {
		case '-':
			asked.Gone = append(asked.Gone, reference)
		case '+':
			asked.Held = append(asked.Held, &pb.Seat{Pod: reference, NodeName: at})
		default:
			asked.Seats = append(asked.Seats, &pb.Seat{Pod: reference, NodeName: at})
		}
	}
	return asked
}

// check asks twice: an answer leaves nothing behind. Each refusal is "POD>NODE PLUGIN: REASON".
func check(t *testing.T, s *service, asked *pb.VerifyRequest, refused ...string) {
	t.Helper()
	for range 2 {
		got, err := s.Verify(context.Background(), asked)
		if err != nil {
			t.Fatal(err)
		}
		if got.Accepted != (len(refused) == 0) || len(got.Refusals) != len(refused) {
			t.Fatalf("got %v, wanted %q", got, refused)
		}
		for at, each := range got.Refusals {
			if told := worded(each); !strings.HasPrefix(told, refused[at]) {
				t.Errorf("got %q, wanted %q", told, refused[at])
			}
		}
	}
}

func worded(each *pb.SeatRefusal) string {
	return fmt.Sprintf("%s>%s %s: %s", each.Seat.Pod.Name, each.Seat.NodeName, each.Plugin, strings.Join(each.Reasons, ", "))
}

func TestResources(t *testing.T) {
	s := made(t, node("n0"), node("n1"), pod("low", asks("cpu", "3"), on("n0")), pod("a", asks("cpu", "3")), pod("b", asks("cpu", "3")))
	check(t, s, plan("a>n1"))
	check(t, s, plan("-low", "a>n0", "b>n1"))
	check(t, s, plan("a>n0", "b>n1"), "a>n0 NodeResourcesFit: Insufficient cpu")
	check(t, s, plan("a>n1", "b>n1"), "b>n1 NodeResourcesFit: Insufficient cpu")
	check(t, s, plan("+b>n1", "a>n1"), "a>n1 NodeResourcesFit: Insufficient cpu")
	check(t, s, plan("a>gone"), "a>gone : the node is gone")
}

func TestTaintsSelectorsAndPorts(t *testing.T) {
	tainted := node("n0", func(made *v1.Node) {
		made.Spec.Taints = []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoSchedule}}
	})
	port := func(made *v1.Pod) {
		made.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: v1.ProtocolTCP}}
	}
	picky := pod("picky", func(made *v1.Pod) { made.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "n2"} })
	s := made(t, tainted, node("n1"), node("n2"), pod("a"), pod("b", port), pod("c", port), picky)
	check(t, s, plan("a>n0"), "a>n0 TaintToleration: node(s) had untolerated taint(s)")
	check(t, s, plan("b>n1", "c>n1"), "c>n1 NodePorts: node(s) didn't have free ports")
	check(t, s, plan("b>n1", "c>n2", "picky>n2"))
	check(t, s, plan("picky>n1"), "picky>n1 NodeAffinity: ")
}

func near(label string, against bool) func(*v1.Pod) {
	terms := []v1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": label}},
		TopologyKey:   "topology.kubernetes.io/zone",
	}}
	return func(made *v1.Pod) {
		made.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
		if against {
			made.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
		}
	}
}

func TestAffinity(t *testing.T) {
	named := func(label string) func(*v1.Pod) { return func(made *v1.Pod) { made.Labels["app"] = label } }
	s := made(t, node("n0", zone("a")), node("n1", zone("a")), node("n2", zone("b")),
		pod("low", on("n2"), near("apart", true), named("apart")), pod("leader", named("leader")), pod("worker", near("leader", false)),
		pod("x", near("apart", true), named("apart")), pod("y", near("apart", true), named("apart")))
	// The worker is placed once its leader is, whatever the order.
	check(t, s, plan("worker>n0", "leader>n1"))
	check(t, s, plan("worker>n2", "leader>n1"), "worker>n2 InterPodAffinity: ")
	check(t, s, plan("x>n0", "y>n1"), "y>n1 InterPodAffinity: ")
	check(t, s, plan("x>n0", "y>n2"), "y>n2 InterPodAffinity: ")
	check(t, s, plan("-low", "x>n0", "y>n2"))
}

func claimed(name string) func(*v1.Pod) {
	return func(made *v1.Pod) {
		made.Spec.Volumes = append(made.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
}

// volume returns a claim and the volume that it is bound to, in a zone.
func volume(name, inZone string, mode v1.PersistentVolumeAccessMode) []object {
	return []object{
		&v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name),
				Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
			Spec:   v1.PersistentVolumeClaimSpec{VolumeName: name, AccessModes: []v1.PersistentVolumeAccessMode{mode}},
			Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
		},
		&v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1.PersistentVolumeSpec{
				ClaimRef:               &v1.ObjectReference{Namespace: "default", Name: name, UID: types.UID(name)},
				PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "disk", VolumeHandle: name}},
				NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
					MatchExpressions: []v1.NodeSelectorRequirement{{Key: "topology.kubernetes.io/zone", Operator: v1.NodeSelectorOpIn, Values: []string{inZone}}}}}}},
			},
		},
	}
}

func TestZonesAndModesOfVolumes(t *testing.T) {
	objects := append(volume("v1", "a", v1.ReadWriteOnce), volume("v2", "b", v1.ReadWriteOnce)...)
	objects = append(objects, volume("once", "a", v1.ReadWriteOncePod)...)
	objects = append(objects, node("n0", zone("a")), node("n1", zone("b")), pod("a", claimed("v1")), pod("b", claimed("v2")),
		pod("low", claimed("once"), on("n0")), pod("c", claimed("once")), pod("d", claimed("once")))
	s := made(t, objects...)
	check(t, s, plan("a>n0", "b>n1"))
	check(t, s, plan("a>n1", "b>n1"), "a>n1 VolumeBinding: node(s) didn't match PersistentVolume's node affinity")
	check(t, s, plan("c>n0"), "c>n0 VolumeRestrictions: ")
	check(t, s, plan("-low", "c>n0"))
	check(t, s, plan("-low", "c>n0", "d>n0"), "d>n0 VolumeRestrictions: ")
	got, err := s.Verify(context.Background(), plan("a>n1"))
	if err != nil || got.Refusals[0].AnyNode {
		t.Errorf("another node would do: %v, %v", got, err)
	}
}

func TestUnboundVolumes(t *testing.T) {
	waits := storagev1.VolumeBindingWaitForFirstConsumer
	objects := []object{&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &waits}}
	for _, name := range []string{"p1", "p2"} {
		objects = append(objects, &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
			Spec: v1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("local"), AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				Resources: v1.VolumeResourceRequirements{Requests: amounts("storage", "1Gi")}},
			Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
		})
	}
	disk := volume("disk", "a", v1.ReadWriteOnce)[1].(*v1.PersistentVolume)
	disk.Spec.ClaimRef, disk.Spec.StorageClassName, disk.Spec.Capacity = nil, "local", amounts("storage", "1Gi")
	disk.Spec.AccessModes, disk.Status.Phase = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, v1.VolumeAvailable
	objects = append(objects, disk, node("n0", zone("a")), node("n1", zone("a")), pod("a", claimed("p1")), pod("b", claimed("p2")))
	s := made(t, objects...)
	// Each of the two could have the one volume, on either node.
	check(t, s, plan("a>n0"))
	check(t, s, plan("b>n1"))
	check(t, s, plan("a>n0", "b>n1"), "b>n1 VolumeBinding: node(s) didn't find available persistent volumes to bind")
}

func TestAttachLimit(t *testing.T) {
	objects := append(volume("v1", "a", v1.ReadWriteOnce), volume("v2", "a", v1.ReadWriteOnce)...)
	objects = append(objects,
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "disk"}},
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n0"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "disk", NodeID: "n0", Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To[int32](1)}}}}},
		node("n0", zone("a")), pod("low", claimed("v1"), on("n0")), pod("a", claimed("v2")))
	s := made(t, objects...)
	check(t, s, plan("a>n0"), "a>n0 NodeVolumeLimits: node(s) exceed max volume count")
	check(t, s, plan("-low", "a>n0"))
}

func TestDeclaredFeatures(t *testing.T) {
	feature := "RestartAllContainersOnContainerExits"
	restarting := pod("a", func(made *v1.Pod) {
		made.Spec.RestartPolicy = v1.RestartPolicyNever
		made.Spec.Containers[0].RestartPolicy = ptr.To(v1.ContainerRestartPolicyNever)
		made.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{1}}}}
	})
	s := made(t, node("old"), node("new", func(made *v1.Node) { made.Status.DeclaredFeatures = []string{feature} }), restarting)
	check(t, s, plan("a>new"))
	check(t, s, plan("a>old"), "a>old NodeDeclaredFeatures: ")
}

const driver = "gpu.example.com"

// devices returns a node with as many devices.
func devices(name string, count int) []object {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{Driver: driver, NodeName: ptr.To(name),
			Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}},
	}
	for at := range count {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("d", at)})
	}
	return []object{node(name), slice}
}

func class(extended string) *resourceapi.DeviceClass {
	made := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}}}}
	if extended != "" {
		made.Spec.ExtendedResourceName = &extended
	}
	return made
}

// wants returns a claim for as many devices.
func wants(name string, count int64) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "r",
			Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}}}}},
	}
}

// has allocates the first devices of a node to a claim for these pods.
func has(claim *resourceapi.ResourceClaim, at string, pods ...string) *resourceapi.ResourceClaim {
	given := resourceapi.DeviceAllocationResult{}
	for number := range claim.Spec.Devices.Requests[0].Exactly.Count {
		given.Results = append(given.Results, resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: driver, Pool: at, Device: fmt.Sprint("d", number)})
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: given, NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{at}}}}}}}
	for _, name := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: types.UID(name)})
	}
	return claim
}

// by names a claim of the pod's own, made from a template, or (shared) one for several.
func by(claim string, shared bool) func(*v1.Pod) {
	return func(made *v1.Pod) {
		named := v1.PodResourceClaim{Name: "gpu", ResourceClaimName: &claim}
		if !shared {
			named = v1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: ptr.To("template")}
			made.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &claim}}
		}
		made.Spec.ResourceClaims = []v1.PodResourceClaim{named}
		made.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "gpu"}}
	}
}

// owned makes a claim one that the pod's template gave.
func owned(claim *resourceapi.ResourceClaim, of string) *resourceapi.ResourceClaim {
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: of, UID: types.UID(of), Controller: ptr.To(true)}}
	return claim
}

func TestDevices(t *testing.T) {
	objects := append(devices("n0", 8), devices("n1", 8)...)
	objects = append(objects, devices("n2", 8)...)
	objects = append(objects, class(""),
		owned(wants("ca", 8), "a"), owned(wants("cb", 8), "b"), owned(has(wants("clow", 8), "n2", "low"), "low"), wants("both", 8),
		pod("a", by("ca", false)), pod("b", by("cb", false)), pod("low", by("clow", false), on("n2")),
		pod("x", by("both", true)), pod("y", by("both", true)), pod("new", by("none", false)))
	s := made(t, objects...)
	check(t, s, plan("a>n0", "b>n1"))
	check(t, s, plan("a>n0", "b>n0"), "b>n0 DynamicResources: cannot allocate all claims")
	check(t, s, plan("+a>n0", "b>n0"), "b>n0 DynamicResources: cannot allocate all claims")
	check(t, s, plan("a>n2"), "a>n2 DynamicResources: cannot allocate all claims")
	check(t, s, plan("-low", "a>n2", "b>n1"))
	check(t, s, plan("-low", "a>n2", "b>n2"), "b>n2 DynamicResources: ")
	// What one claim was given for two members is on one node.
	check(t, s, plan("x>n0", "y>n0"))
	check(t, s, plan("x>n0", "y>n1"), "y>n1 DynamicResources: resourceclaim not available on the node")
	check(t, s, plan("new>n0"), "new>n0 DynamicResources: ")
}

func TestClaimOfTwoUsers(t *testing.T) {
	objects := append(devices("n0", 8), class(""), has(wants("shared", 8), "n0", "low", "stays"), owned(wants("ca", 8), "a"),
		pod("low", by("shared", true), on("n0")), pod("stays", by("shared", true), on("n0")), pod("a", by("ca", false)))
	s := made(t, objects...)
	check(t, s, plan("-low", "a>n0"), "a>n0 DynamicResources: ")
	check(t, s, plan("-low", "-stays", "a>n0"))
}

func TestExtendedResourceOfDevices(t *testing.T) {
	objects := append(devices("n0", 8), devices("n1", 8)...)
	objects = append(objects, class("example.com/gpu"), pod("a", asks("cpu", "1", "example.com/gpu", "8")), pod("b", asks("cpu", "1", "example.com/gpu", "8")))
	s := made(t, objects...)
	check(t, s, plan("a>n0", "b>n1"))
	check(t, s, plan("a>n0", "b>n0"), "b>n0 DynamicResources: ")
}

// odd is a plugin of others, which refuses, waits or panics.
type odd struct {
	fwk.FilterPlugin
	ends chan struct{}
}

func (o *odd) Name() string { return "Odd" }

func (o *odd) Filter(_ context.Context, _ fwk.CycleState, asked *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	switch asked.Name {
	case "slow":
		<-o.ends
	case "mad":
		panic("mad")
	case "odd":
		return fwk.NewStatus(fwk.Unschedulable, "not here")
	}
	return nil
}

func TestForeignPluginsAndFaults(t *testing.T) {
	plugin := &odd{ends: make(chan struct{})}
	registry := runtime.Registry{"Odd": func(context.Context, apiruntime.Object, fwk.Handle) (fwk.Plugin, error) { return plugin, nil }}
	s := madeWith(t, registry, "Odd", node("n0"), pod("a"), pod("odd"), pod("mad"), pod("slow"))
	check(t, s, plan("a>n0", "odd>n0"), "odd>n0 Odd: not here")
	fails := func(code codes.Code, asked *pb.VerifyRequest) {
		t.Helper()
		if got, err := s.Verify(context.Background(), asked); status.Code(err) != code {
			t.Errorf("got %v, %v, wanted %v", got, err, code)
		}
	}
	fails(codes.Internal, plan("mad>n0"))
	fails(codes.FailedPrecondition, plan("unknown>n0"))
	fails(codes.InvalidArgument, plan("a"))
	check(t, s, plan("a>n0"))
	s.limit = 50 * time.Millisecond
	fails(codes.DeadlineExceeded, plan("slow>n0"))
	fails(codes.ResourceExhausted, plan("a>n0"))
	close(plugin.ends)
	s.limit = 10 * time.Second
	check(t, s, plan("a>n0"))
	asked := plan("a>n0")
	asked.PodsVersion = "999999999"
	s.limit = 50 * time.Millisecond
	fails(codes.FailedPrecondition, asked)
}

func TestOurPluginIsNotAsked(t *testing.T) {
	given := config.KubeSchedulerProfile{Plugins: &config.Plugins{}}
	given.Plugins.MultiPoint.Enabled = []config.Plugin{{Name: extenderPlugin}, {Name: "Other"}}
	given.Plugins.Bind.Enabled = []config.Plugin{{Name: extenderPlugin}}
	given.PluginConfig = []config.PluginConfig{{Name: extenderPlugin}}
	without(&given, extenderPlugin)
	if len(given.Plugins.MultiPoint.Enabled) != 1 || len(given.Plugins.Bind.Enabled) != 0 || len(given.PluginConfig) != 0 {
		t.Errorf("got %+v", given)
	}
}
