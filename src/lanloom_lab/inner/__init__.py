"""The inner side of a lab: what runs on the kernel that carries the nodes (user-mode Linux, or the host's own).

It runs with the private tree's python3 and must start quickly on one slow processor: the standard library, msgspec
and the lab's own small modules are all that it imports.
"""
