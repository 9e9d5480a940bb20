"""What is written on objects for people: conditions, events, notices."""
