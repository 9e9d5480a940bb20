"""Gangs in action: planning, reservations, eviction, plan records, recovery."""
