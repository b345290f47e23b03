"""The inner side of a lab: the processes on the kernel of the nodes (user-mode Linux, or that of the host).

It runs with the python3 of the private tree and must start quickly on one slow processor: it imports the standard
library, msgspec and small modules of the lab only.
"""
