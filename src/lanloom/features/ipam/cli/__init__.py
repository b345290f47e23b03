"""The commands of address management."""
