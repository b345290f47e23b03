"""What agents report of a node, and what the manager concludes from the reports."""
