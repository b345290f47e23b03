"""Isolated networks in the manager's process: its settings, and the network that it makes at start."""
