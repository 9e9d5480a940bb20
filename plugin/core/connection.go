package core

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// connect returns a connection that is made when it is needed, and again when it breaks.
func connect(args *Args) (*grpc.ClientConn, error) {
	secure := insecure.NewCredentials()
	if args.CAFile != "" {
		config, err := tlsConfig(args)
		if err != nil {
			return nil, err
		}
		secure = credentials.NewTLS(config)
	}
	return grpc.NewClient(args.Address,
		grpc.WithTransportCredentials(secure),
		// The library's own pauses grow to two minutes, in which every pod would wait.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// The extender refuses pings that come more often than every ten seconds.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16*1024*1024)),
	)
}

func tlsConfig(args *Args) (*tls.Config, error) {
	authority, err := os.ReadFile(args.CAFile)
	if err != nil {
		return nil, fmt.Errorf("caFile: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("caFile: no certificate in %s", args.CAFile)
	}
	config := &tls.Config{RootCAs: pool, ServerName: args.ServerName, MinVersion: tls.VersionTLS12}
	if args.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(args.CertFile, args.KeyFile); err != nil {
			return nil, fmt.Errorf("certFile and keyFile: %w", err)
		}
		// Read for each connection: certificates are renewed.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(args.CertFile, args.KeyFile)
			return &pair, err
		}
	}
	return config, nil
}

// closeWith closes the connection when the scheduler stops.
func closeWith(ctx context.Context, connection *grpc.ClientConn) {
	context.AfterFunc(ctx, func() { _ = connection.Close() })
}
