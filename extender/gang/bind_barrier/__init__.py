"""All members of a gang are bound, or none: the bind verb (docs/barrier.md)."""
