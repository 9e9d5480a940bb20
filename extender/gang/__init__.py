"""From a question about a gang to its seats: plan, what is kept for planning, act, tell."""
