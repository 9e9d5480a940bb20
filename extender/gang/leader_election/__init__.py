"""Which replica acts: the Lease and its label."""
