"""CNI calls from a runtime's program to a feature's answer: the same way for every program.

`shim.c` is the program on the node under every name, `programs` keeps it there, `server` is the agent's one socket, and
`calls` is what goes over it.
"""
