"""Ganeti: its files, their conversion and import, and the environment of its hooks.

`formats` has the files themselves, without any I/O. `files` reads, converts and writes them, `plan` and `importing`
bring a file's networks and NICs into a cluster.
"""
