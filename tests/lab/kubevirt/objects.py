"""Machines as users write them."""

from typing import Any

from msgspec import convert

from lanloom_lab.kubevirt.objects import Whole

Raw = dict[str, Any]

MAC = "02:00:00:00:00:01"


def interface(name: str, **fields: Any) -> Raw:
    """A NIC with the binding `bridge`."""
    return {"name": name, "bridge": {}, **fields}


def network(name: str, nad: str, **fields: Any) -> Raw:
    """A network of a NAD."""
    return {"name": name, "multus": {"networkName": nad, **fields}}


def spec(interfaces: list[Raw], networks: list[Raw], domain: Raw | None = None, **more: Any) -> Raw:
    """The spec of an instance."""
    return {
        "domain": {"devices": {"interfaces": interfaces}, **(domain or {})},
        "networks": networks,
        **more,
    }


ONE = spec([interface("lan", macAddress=MAC)], [network("lan", "red")])
"""A machine with one NIC on the NAD red."""


def machine(name: str = "vm1", instance: Raw = ONE, **more: Any) -> Raw:
    """A VirtualMachine."""
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "runStrategy": "Always",
            **more,
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": instance},
        },
    }


def whole(**fields: Any) -> Whole:
    """An instance in memory."""
    body = {"metadata": {"name": "vm1", "namespace": "default", "uid": "u1"}, "spec": ONE} | fields
    return convert(body, Whole)
