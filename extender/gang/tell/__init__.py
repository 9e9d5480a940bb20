"""What was decided and why, kept and told."""
