"""Ganeti: its files, the way from and to them, and what its hooks are told.

`formats` has the files themselves, without any I/O. `files` reads and writes them, `convert` changes a file from one
form to the other, `plan` and `importing` bring a file's networks and NICs into a cluster.
"""
