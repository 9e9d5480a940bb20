"""The watch cache: reflectors that follow the API, a store, immutable snapshots of it."""
