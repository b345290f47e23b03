"""What a node should carry, what of it Lanloom made, and the plan that leads from one to the other."""
