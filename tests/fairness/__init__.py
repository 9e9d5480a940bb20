"""Streams of small work, and one big gang of the same priority that must have its turn."""
