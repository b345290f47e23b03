"""Benchmarks with limits. `python -m bench` runs them all, `python -m bench NAME…` some."""
