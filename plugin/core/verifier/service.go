package verifier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/klog/v2"

	"podgroup-extender.io/plugin/core/pb"
)

// catchUpTime is how long an answer waits for the state that the caller has seen.
const catchUpTime = time.Second

// service answers one question at a time, each within its limit.
type service struct {
	pb.UnimplementedVerifierServiceServer
	judge *judge
	signs *signs
	limit time.Duration
	turn  chan struct{}
}

func newService(judge *judge, signs *signs, limit time.Duration) *service {
	return &service{judge: judge, signs: signs, limit: limit, turn: make(chan struct{}, 1)}
}

// Verify answers, or says why there is no answer: an older state than the caller's, a plugin that
// does not come to an end, another question that takes all the time.
func (s *service) Verify(ctx context.Context, asked *pb.VerifyRequest) (*pb.VerifyResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	for _, each := range append(append([]*pb.Seat(nil), asked.Seats...), asked.Held...) {
		if each.GetPod().GetName() == "" || each.NodeName == "" {
			return nil, status.Error(codes.InvalidArgument, "a seat without a pod's name or a node")
		}
	}
	if err := s.catchUp(ctx, asked); err != nil {
		return nil, err
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, status.Error(codes.ResourceExhausted, "another question takes all the time")
	}
	type answer struct {
		response *pb.VerifyResponse
		err      error
	}
	answered := make(chan answer, 1)
	go func() {
		defer func() { <-s.turn }()
		response, err := s.judged(ctx, asked)
		answered <- answer{response, err}
	}()
	select {
	case got := <-answered:
		return got.response, got.err
	case <-ctx.Done():
		return nil, status.Errorf(codes.DeadlineExceeded, "no answer within %v", s.limit)
	}
}

func (s *service) judged(ctx context.Context, asked *pb.VerifyRequest) (response *pb.VerifyResponse, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			klog.FromContext(ctx).Error(nil, "a plugin panicked", "fault", fault)
			response, err = nil, status.Errorf(codes.Internal, "a plugin panicked: %v", fault)
		}
	}()
	began := time.Now()
	refusals, err := s.judge.verify(ctx, asked)
	switch {
	case errors.Is(err, errUnknown):
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	case err != nil:
		return nil, status.FromContextError(err).Err()
	}
	return &pb.VerifyResponse{
		Accepted: len(refusals) == 0,
		Refusals: refusals,
		Age:      durationpb.New(s.signs.age()),
		Took:     durationpb.New(time.Since(began)),
	}, nil
}

func (s *service) catchUp(ctx context.Context, asked *pb.VerifyRequest) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	cluster := s.judge.cluster
	if cluster.pods.reaches(ctx, asked.PodsVersion) && cluster.nodeSeen.reaches(ctx, asked.NodesVersion) {
		return nil
	}
	return status.Error(codes.FailedPrecondition, fmt.Sprintf(
		"the state here is older than the caller's (pods %s, nodes %s)", asked.PodsVersion, asked.NodesVersion))
}
