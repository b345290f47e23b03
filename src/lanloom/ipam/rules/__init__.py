"""The model of address management: pure rules on values, without I/O."""
