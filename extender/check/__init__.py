"""``check``: a linter of configurations. One file a subject: its rules, and what each says."""
