"""What only C can call, made callable for these tests; compiled in the checked builds alone."""
