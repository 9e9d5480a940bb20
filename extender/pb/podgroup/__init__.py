"""Generated from proto/ by `python -m tools.protos`; not to be edited."""
