"""Whose turn it is, what a namespace may evict, and who is suspended."""
