package verifier

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"podgroup-extender.io/plugin/core/pb"
)

// Minor is what differs between minor versions of Kubernetes.
type Minor struct {
	Cache      func(context.Context) schedulercache.Cache
	Informers  func(clientset.Interface) informers.SharedInformerFactory
	TaintRules func(*tracker.Options, informers.SharedInformerFactory)
}

// extenderPlugin is the plugin that calls the extender. It is not asked here.
const extenderPlugin = "PodGroupExtender"

// Main serves until it is told to stop, and returns the exit status. Foreign plugins of the profiles
// are registered by name in others.
func Main(minor Minor, others runtime.Registry) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, minor, others, os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "verifier:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, minor Minor, others runtime.Registry, arguments []string) error {
	scheduler := options.NewOptions()
	scheduler.SecureServing.BindPort = 0
	flags := pflag.NewFlagSet("verifier", pflag.ContinueOnError)
	listen := flags.String("listen", "", "where gRPC is served: 127.0.0.1:PORT, localhost:PORT or unix:/absolute/path")
	limit := flags.Duration("limit", 5*time.Second, "the most time of an answer")
	// As kube-scheduler has them: config, kubeconfig, feature-gates, v.
	for _, set := range []string{"misc", "deprecated", "feature gate", "logs"} {
		flags.AddFlagSet(scheduler.Flags.FlagSet(set))
	}
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	listener, err := listening(*listen)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	config, err := scheduler.Config(ctx)
	if err != nil {
		return err
	}
	signs := newSigns()
	config.KubeConfig.Wrap(signs.wrap)
	client, err := clientset.NewForConfig(config.KubeConfig)
	if err != nil {
		return err
	}
	cluster, err := newCluster(ctx, client, minor)
	if err != nil {
		return err
	}
	profiles := config.ComponentConfig.Profiles
	for at := range profiles {
		without(&profiles[at], extenderPlugin)
	}
	judge, err := newJudge(ctx, cluster, profiles, others)
	if err != nil {
		return err
	}
	if err := cluster.start(ctx); err != nil {
		return err
	}
	server, ready := grpc.NewServer(), health.NewServer()
	pb.RegisterVerifierServiceServer(server, newService(judge, signs, *limit))
	grpc_health_v1.RegisterHealthServer(server, ready)
	context.AfterFunc(ctx, server.Stop)
	klog.FromContext(ctx).Info("serving", "address", *listen, "profiles", len(profiles))
	return server.Serve(listener)
}

// listening opens the address: one that only this machine, or pod, can reach. The answer of another
// would be believed.
func listening(address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		listener, err := net.Listen("unix", path)
		if err != nil {
			return nil, err
		}
		return listener, os.Chmod(path, 0o660)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("--listen %q: %w", address, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("--listen %s can be reached from elsewhere: listen on 127.0.0.1 or unix:/path", address)
	}
	return net.Listen("tcp", address)
}
