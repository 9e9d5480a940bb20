"""A month of jobs played through the planner and through what it is compared with, offline."""
