"""Typed, immutable records shared by every room. No I/O, no clock, no logging.

Units everywhere: CPU in milli-cores, memory and storage in bytes, every other
resource as a plain count; times in seconds since the epoch (float, 0.0 = unset).
"""
