"""The extender verbs, free of HTTP: questions in, answers out."""
