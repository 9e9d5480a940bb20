"""What planning keeps from one snapshot to the next. Answers never depend on it."""
