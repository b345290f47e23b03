"""The node's side of address management: answers the CNI plugin `lanloom-ipam`.

`server` is the socket, `service` what each command does by way of `nics` and `waiting`; all else are rules over what
runtimes, users and KubeVirt wrote.
"""
