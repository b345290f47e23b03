"""Guests of `lanloom_lab.guests` for tests that need no lab: QEMU on a tap of the test's own, with its console."""
