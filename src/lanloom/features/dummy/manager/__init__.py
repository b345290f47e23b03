"""Isolated networks in the manager: they are made, kept right, and removed once nobody uses them.

`build` puts the manager's part together. `controllers` are what wakes them, `networks` what is done then, with what
`reader` observes, and by `executor`. `settings` follows the ConfigMap, and `default` makes the network that is there
from the start.
"""
