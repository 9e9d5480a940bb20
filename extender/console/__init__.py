"""The page at /ui/: gangs, decisions, nodes and what-if questions, for people with a browser.

Reads what the process keeps anyway; decides and changes nothing. Pages are made on a thread of
their own from one picture of the cluster, which is made at most once a second, and only while
somebody looks.
"""
