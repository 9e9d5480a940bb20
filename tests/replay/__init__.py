"""The replay: a trace of jobs under several ways of preempting."""
