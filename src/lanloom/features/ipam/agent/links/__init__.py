"""The kernel of this machine as the ports of address management."""
