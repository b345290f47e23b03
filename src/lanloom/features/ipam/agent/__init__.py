"""The node's side of address management: serves the CNI plugin `lanloom-ipam`.

`server` is the socket, `protocol` its messages, `service` the CNI commands, by way of `nics`. `cnitypes` and `pods` are
rules over input of runtimes, users and KubeVirt.
"""
