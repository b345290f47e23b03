"""What a node does for LANs: the data plane in the kernel, the device plugin and the CNI programs' service.

`ports` is what the two halves agree on: `spokes` implements it, kubelet's and CNI's side uses it.
"""
