"""A linear program over groups of choices: basis and primal simplex, nothing of the search."""
