"""Ganeti's own files: their networks and NICs in the form of before and in the form with subnets, and back.

The old form is what Ganeti 2.7 and later write; the new one is that of its design of revised network management.
"""
