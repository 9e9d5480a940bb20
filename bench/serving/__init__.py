"""What the extender costs those who ask it, and what it costs itself."""
