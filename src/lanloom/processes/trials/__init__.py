"""`lanloom check`: the trials of the features on a real cluster, from the plan to the result."""
