"""The transport to the API server: bytes and plain dictionaries, typed errors, no caching."""
