"""gRPC beside HTTP: the same verbs, questions that change nothing, and watches.

Handlers get and give bytes and meet protobuf themselves, so that a malformed message is answered,
logged and counted like any other bad question. docs/grpc.md is for callers.
"""
