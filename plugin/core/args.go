package core

import (
	"fmt"
	"net"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// What happens to pods of no gang while the mirror cannot be believed.
const (
	// Hold keeps every pod waiting, as an HTTP extender with ignorable: false does.
	Hold = "Hold"
	// Elsewhere lets them have nodes on which no seat was known. Seats that are held meanwhile are
	// not seen, so the room that was freed for a gang may be lost.
	Elsewhere = "Elsewhere"
)

// How a gang is kept from starting in part.
const (
	// Permit lets a member go on when all members of its plan have been given their seats.
	Permit = "Permit"
	// Bind hands the binding of members to the extender, which needs bind.enabled.
	Bind = "Bind"
)

// Args are the plugin's arguments in the profile's pluginConfig.
type Args struct {
	// Address of the extender's grpc.listen: HOST:PORT or unix:/absolute/path.
	Address string `json:"address"`
	// The files of TLS: authority, certificate and key. None on loopback and a Unix socket.
	CAFile     string `json:"caFile,omitempty"`
	CertFile   string `json:"certFile,omitempty"`
	KeyFile    string `json:"keyFile,omitempty"`
	ServerName string `json:"serverName,omitempty"`
	// CallTimeout of Filter and Preempt: nothing else is scheduled meanwhile. Default 5s.
	CallTimeout metav1.Duration `json:"callTimeout,omitempty"`
	// Heartbeat of the mirror; after three without a message it is cut. Default 1s.
	Heartbeat metav1.Duration `json:"heartbeat,omitempty"`
	// WhenCut is Hold (default) or Elsewhere.
	WhenCut string `json:"whenCut,omitempty"`
	// Barrier is Permit (default) or Bind.
	Barrier string `json:"barrier,omitempty"`
	// BarrierTimeout is how long a member waits for the others; with Bind it has to be above
	// bind.holdSeconds, bind.postSeconds and 2 s together. Default 45s.
	BarrierTimeout metav1.Duration `json:"barrierTimeout,omitempty"`
	// As in DefaultPreemptionArgs, whose place the plugin takes. Defaults 10 and 100.
	MinCandidateNodesPercentage *int32 `json:"minCandidateNodesPercentage,omitempty"`
	MinCandidateNodesAbsolute   *int32 `json:"minCandidateNodesAbsolute,omitempty"`
}

func readArgs(given runtime.Object) (*Args, error) {
	args := &Args{}
	if raw, ok := given.(*runtime.Unknown); ok {
		if err := yaml.UnmarshalStrict(raw.Raw, args); err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", Name, err)
		}
	} else if given != nil {
		return nil, fmt.Errorf("arguments of %s: got %T", Name, given)
	}
	for _, each := range []struct {
		value *metav1.Duration
		unset time.Duration
	}{
		{&args.CallTimeout, 5 * time.Second},
		{&args.Heartbeat, time.Second},
		{&args.BarrierTimeout, 45 * time.Second},
	} {
		if each.value.Duration == 0 {
			each.value.Duration = each.unset
		}
	}
	if args.WhenCut == "" {
		args.WhenCut = Hold
	}
	if args.Barrier == "" {
		args.Barrier = Permit
	}
	percentage, absolute := int32(10), int32(100)
	if args.MinCandidateNodesPercentage == nil {
		args.MinCandidateNodesPercentage = &percentage
	}
	if args.MinCandidateNodesAbsolute == nil {
		args.MinCandidateNodesAbsolute = &absolute
	}
	return args, args.check()
}

func (a *Args) check() error {
	switch {
	case a.Address == "":
		return fmt.Errorf("arguments of %s: address is not given", Name)
	case a.WhenCut != Hold && a.WhenCut != Elsewhere:
		return fmt.Errorf("arguments of %s: whenCut is %q, it must be %s or %s", Name, a.WhenCut, Hold, Elsewhere)
	case a.Barrier != Permit && a.Barrier != Bind:
		return fmt.Errorf("arguments of %s: barrier is %q, it must be %s or %s", Name, a.Barrier, Permit, Bind)
	case (a.CertFile == "") != (a.KeyFile == ""):
		return fmt.Errorf("arguments of %s: certFile and keyFile go together", Name)
	case a.CertFile != "" && a.CAFile == "":
		return fmt.Errorf("arguments of %s: certFile needs caFile", Name)
	case a.CAFile == "" && !local(a.Address):
		return fmt.Errorf("arguments of %s: address %s is reached over the network and needs caFile: "+
			"whoever is on the way could say that no seats are held", Name, a.Address)
	case a.Heartbeat.Duration < 100*time.Millisecond:
		return fmt.Errorf("arguments of %s: heartbeat is %v, at least 100ms is kept", Name, a.Heartbeat.Duration)
	case a.CallTimeout.Duration < 0 || a.BarrierTimeout.Duration < 0:
		return fmt.Errorf("arguments of %s: a timeout is negative", Name)
	}
	return nil
}

// local says whether only this machine, or pod, can answer at an address.
func local(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
