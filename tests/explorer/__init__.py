"""Every interleaving of small worlds, breadth first."""
