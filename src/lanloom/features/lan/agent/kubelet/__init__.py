"""Kubelet's side of a node: every spoke as a device that pods can ask for (device plugin API v1beta1).

`api` is what goes over the sockets, `plugin` one device, `plugins` all of them and their registration.
"""
