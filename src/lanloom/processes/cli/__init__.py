"""The commands of the processes."""
