"""Address management for its users: what commands read of a cluster and write to it."""
