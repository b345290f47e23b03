"""Staged rollout: the policy, and which nodes are released next."""
