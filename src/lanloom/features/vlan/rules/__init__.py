"""The rules of VLAN networks: pure functions from what is wanted and observed to what is to be done and said."""
