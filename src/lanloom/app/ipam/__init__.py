"""Address management for its users: what commands read of a cluster and write to it; `parts` is about the manager.

`networks` changes networks, `networkviews` and `networkusage` tell of them. `instancechange` changes instances by way
of `instanceplan` (what is to be written) and `instancewrite`; `instances`, `instanceviews` and `instancefields` tell of
them. What begins with `ganeti` is about Ganeti's files: converting them, importing them, and what hooks are told.
"""
