"""The node's side of address management: answers the CNI plugin `lanloom-ipam`.

`server` is the socket, `protocol` what goes over it, `service` what each command does by way of `nics`; `config`,
`pods` and `result` are rules over what runtimes, users and KubeVirt wrote.
"""
