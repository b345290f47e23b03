"""Programs that a container runtime starts on a host: each one file, and nothing else of Lanloom.

Scripts use the standard library only. `shim.c` and `forward.py` are the same program, compiled and not.
"""
