"""The VLAN feature for people at a command line: how networks are, and what a manifest would change."""
