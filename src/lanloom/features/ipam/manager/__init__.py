"""The manager's side of address management: the one allocator of each network, and the owners of NICs.

`controllers` says when each network is reconciled. `allocator` is the only place that gives addresses away. `term` has
the networks that this process has taken over, and writes their objects; `allocation` is the allocation state of one.
Pure rules: `decisions` (which addresses a NIC gets, and its status), `networkstatus` (how full pools are).

`owners` keeps the addresses of a NIC while its owner lives, and gives them back afterwards; `evidence` has its rules.
"""
