"""Booked starts of gangs that wait long (docs/fairness.md)."""
