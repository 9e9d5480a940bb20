"""The commands, one file each, and the client that asks a running server."""
