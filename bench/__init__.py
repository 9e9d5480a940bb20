"""Benchmarks: run them by hand; no test depends on a time."""
