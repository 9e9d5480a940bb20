"""A linear program over groups of choices: basis and primal simplex, with no notion of the search."""
