package mirror

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"podgroup-extender.io/plugin/core/pb"
)

// server is a WatchService whose streams say what a test sends.
type server struct {
	pb.UnimplementedWatchServiceServer
	messages chan *pb.WatchSeatsResponse
	cut      chan struct{}
	mutex    sync.Mutex
	streams  int
}

func (s *server) WatchSeats(_ *pb.WatchSeatsRequest, stream grpc.ServerStreamingServer[pb.WatchSeatsResponse]) error {
	s.mutex.Lock()
	s.streams++
	s.mutex.Unlock()
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case <-s.cut:
			return status.Error(codes.Unavailable, "not leading")
		case message := <-s.messages:
			if err := stream.Send(message); err != nil {
				return err
			}
		}
	}
}

func (s *server) opened() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.streams
}

func serve(t *testing.T) (*server, pb.WatchServiceClient) {
	t.Helper()
	made := &server{messages: make(chan *pb.WatchSeatsResponse), cut: make(chan struct{})}
	listener := bufconn.Listen(1 << 16)
	host := grpc.NewServer()
	pb.RegisterWatchServiceServer(host, made)
	go func() { _ = host.Serve(listener) }()
	t.Cleanup(host.Stop)
	connection, err := grpc.NewClient("passthrough:///test",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return made, pb.NewWatchServiceClient(connection)
}

func eventually(t *testing.T, what string, fine func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !fine(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come true", what)
		}
	}
}
