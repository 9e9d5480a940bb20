"""How good plans are, and how long the search takes."""
