"""Which victims, and which seats: the pure search from a Problem to a Solution."""
