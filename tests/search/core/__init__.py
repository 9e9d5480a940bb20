"""Parts of the compiled core by themselves, in the checked build (tools/checked_core.py)."""
