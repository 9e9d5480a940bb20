"""The compiled search: modules written in Cython, built where a compiler is at hand."""
