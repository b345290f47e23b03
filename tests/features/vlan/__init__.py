"""Tests of VLAN networks."""
