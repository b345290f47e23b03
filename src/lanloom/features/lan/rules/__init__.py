"""What is decided about LANs, without I/O."""
