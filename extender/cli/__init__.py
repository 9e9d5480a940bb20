"""The command line: serve, sandbox, plan, check."""
