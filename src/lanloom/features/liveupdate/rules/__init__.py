"""Decisions of live update, as pure functions: no I/O, and time is an argument.

Of the migration way: `mode` says who does what on this cluster. `sync` takes an edit of a VirtualMachine to its
instance. `evaluation` compares the instance with its launcher pod, `conditions` is what is written of that, and
`updates` decides about migrations.
"""
