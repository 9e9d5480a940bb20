"""Input that nobody would write, made by Hypothesis."""
