"""Clocks and background tasks."""
