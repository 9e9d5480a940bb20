"""The gRPC interface as a contract: code generated from proto/, its style and what may change.

`python -m tools.protos` generates the code and renews the stored descriptors;
`python -m tools.protos --check` says what is not as it should be, and changes nothing.
"""
