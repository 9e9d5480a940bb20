"""Plans in action: the book of seats, evictions, records, recovery."""
