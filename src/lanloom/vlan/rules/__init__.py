"""The rules of VLAN networks: pure functions from what is wanted and what is observed to what is to be done and said."""
