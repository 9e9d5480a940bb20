"""Each rule of docs/security.md is taken out on purpose, to see that its test fails."""
