"""How each ecosystem names a gang: one small file per dialect, and one resolver.

Pure: everything here is a function of pods and a snapshot. To add a dialect,
write a file with a class that has the attributes of ``dialect.Dialect`` and add
one line to ``registry.DIALECTS`` (and its name to GroupSettings.dialects).
"""
