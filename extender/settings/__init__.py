"""The configuration file, typed, and what its values must keep. No I/O."""
