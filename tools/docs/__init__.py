"""The documentation: its links, and the site that is made of it."""
