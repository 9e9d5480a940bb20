"""Facts counted in public traces, and how they were counted."""
