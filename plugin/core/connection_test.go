package core

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"podgroup-extender.io/plugin/core/mirror"
	"podgroup-extender.io/plugin/core/pb"
)

const allowedName = "kube-scheduler"

// authority signs certificates of a test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	made := &authority{file: filepath.Join(t.TempDir(), "ca.pem")}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour),
	}
	made.certificate, made.key = template, nil
	der, key := made.sign(t, template)
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	made.certificate, made.key = parsed, key
	write(t, made.file, "CERTIFICATE", der)
	return made
}

// sign makes a key and its certificate; the authority's own before it has a key.
func (a *authority) sign(t *testing.T, template *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-2 * time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// issue writes a certificate for 127.0.0.1 and its key that end in so much time.
func (a *authority) issue(t *testing.T, name string, ends time.Duration) (string, string) {
	t.Helper()
	folder := t.TempDir()
	der, key := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(ends),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	write(t, certFile, "CERTIFICATE", der)
	write(t, keyFile, "EC PRIVATE KEY", secret)
	return certFile, keyFile
}

func write(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// telling is a WatchService that tells of a seat on n1, to those on its list.
type telling struct {
	pb.UnimplementedWatchServiceServer
}

func (telling) WatchSeats(_ *pb.WatchSeatsRequest, stream grpc.ServerStreamingServer[pb.WatchSeatsResponse]) error {
	caller, _ := peer.FromContext(stream.Context())
	shown := caller.AuthInfo.(credentials.TLSInfo).State.PeerCertificates
	if !slices.ContainsFunc(shown, func(each *x509.Certificate) bool { return each.Subject.CommonName == allowedName }) {
		return status.Error(codes.PermissionDenied, "not on the list")
	}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for version := uint64(1); ; version++ {
		told := &pb.WatchSeatsResponse{Term: "a", Version: version, Full: true, GangKeys: []string{gangKey}}
		if err := stream.Send(told); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-ticker.C:
		}
	}
}

// serveTLS answers those with a certificate of the authority; it returns its address.
func serveTLS(t *testing.T, callers *authority, certFile, keyFile string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(callers.certificate)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS12,
	})))
	pb.RegisterWatchServiceServer(host, telling{})
	go func() { _ = host.Serve(listener) }()
	t.Cleanup(host.Stop)
	return listener.Addr().String()
}

// linked returns the plugin with a mirror that follows the server which the arguments name.
func linked(t *testing.T, args *Args) (*Plugin, *verbs) {
	t.Helper()
	args.WhenCut, args.Barrier = Hold, Permit
	args.CallTimeout, args.Heartbeat = metav1.Duration{Duration: time.Second}, metav1.Duration{Duration: time.Second}
	if err := args.check(); err != nil {
		t.Fatal(err)
	}
	connection, err := connect(args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	asked := &verbs{}
	made, _ := plugin(mirror.View{}, asked, Hold)
	seats := mirror.New(pb.NewWatchServiceClient(connection), args.Heartbeat.Duration, func(_, _ *mirror.State) {})
	made.view = seats.View
	go seats.Run(t.Context())
	return made, asked
}

func until(t *testing.T, what string, fine func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !fine(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come true", what)
		}
	}
}

func TestWithoutTrustNobodyIsScheduled(t *testing.T) {
	ours, strange := newAuthority(t), newAuthority(t)
	for name, change := range map[string]func(server, args *Args){
		"the extender's certificate is of a stranger": func(server, _ *Args) {
			server.CertFile, server.KeyFile = strange.issue(t, "extender", time.Hour)
		},
		"the extender's certificate has expired": func(server, _ *Args) {
			server.CertFile, server.KeyFile = ours.issue(t, "extender", -time.Hour)
		},
		"it is for another name":     func(_, args *Args) { args.ServerName = "elsewhere.example" },
		"we trust another authority": func(_, args *Args) { args.CAFile = strange.file },
		"ours is of a stranger": func(_, args *Args) {
			args.CertFile, args.KeyFile = strange.issue(t, allowedName, time.Hour)
		},
		"ours has expired": func(_, args *Args) {
			args.CertFile, args.KeyFile = ours.issue(t, allowedName, -time.Hour)
		},
		"ours is not on the list": func(_, args *Args) {
			args.CertFile, args.KeyFile = ours.issue(t, "somebody", time.Hour)
		},
		"we have none":        func(_, args *Args) { args.CertFile, args.KeyFile = "", "" },
		"we speak plain text": func(_, args *Args) { args.CAFile, args.CertFile, args.KeyFile = "", "", "" },
	} {
		t.Run(name, func(t *testing.T) {
			server, args := &Args{}, &Args{CAFile: ours.file}
			server.CertFile, server.KeyFile = ours.issue(t, "extender", time.Hour)
			args.CertFile, args.KeyFile = ours.issue(t, allowedName, time.Hour)
			change(server, args)
			args.Address = serveTLS(t, ours, server.CertFile, server.KeyFile)
			made, asked := linked(t, args)
			until(t, "a refusal", func() bool { return strings.HasPrefix(made.view().Why, "no stream of seats: rpc error") })
			for _, waiting := range []map[string]string{nil, {gangKey: "g"}} {
				_, told := made.PreFilter(t.Context(), framework.NewCycleState(), pod("p", 10, "1", waiting), nodes("n1"))
				if told.Code() != fwk.UnschedulableAndUnresolvable {
					t.Errorf("%v: %v", waiting, told)
				}
			}
			if asked.asked > 0 {
				t.Error("a question was asked")
			}
		})
	}
}

func TestACertificateIsReadAgainForTheNextConnection(t *testing.T) {
	ours := newAuthority(t)
	server := &Args{}
	server.CertFile, server.KeyFile = ours.issue(t, "extender", time.Hour)
	args := &Args{CAFile: ours.file, Address: serveTLS(t, ours, server.CertFile, server.KeyFile)}
	args.CertFile, args.KeyFile = ours.issue(t, allowedName, -time.Hour)
	made, _ := linked(t, args)
	until(t, "a refusal", func() bool { return strings.HasPrefix(made.view().Why, "no stream of seats: rpc error") })
	newCert, newKey := ours.issue(t, allowedName, time.Hour)
	for from, to := range map[string]string{newKey: args.KeyFile, newCert: args.CertFile} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the mirror is fresh", func() bool { return made.view().Fresh })
}

func TestTheFilesOfTLSAreLookedAtAtTheStart(t *testing.T) {
	ours := newAuthority(t)
	certFile, _ := ours.issue(t, allowedName, time.Hour)
	_, otherKey := ours.issue(t, allowedName, time.Hour)
	empty := filepath.Join(t.TempDir(), "empty")
	write(t, empty, "NOTHING", nil)
	for why, args := range map[string]*Args{
		"no such file":      {CAFile: "/nowhere"},
		"no certificate in": {CAFile: empty},
		"does not match":    {CAFile: ours.file, CertFile: certFile, KeyFile: otherKey},
	} {
		args.Address = "127.0.0.1:9"
		if _, err := connect(args); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}
