"""What a plan is carried out with: the planner thread, the queue, requests, records, rounds."""
