"""Edits of a machine's networks: JSON patches that change one NAD, and only if it is still the one that was read.

The lists of a machine belong to its users and to KubeVirt, and may have fields that are unknown here. So an edit names
one item by its place, tests that this is still the network in question, and changes its `networkName` alone.
"""

from collections.abc import Sequence
from typing import Any

from lanloom.api.kubevirt import VirtualMachine, VmNic, nad_of
from lanloom.api.meta import Key
from lanloom.refusals import Denied
from lanloom.text import quote

Operations = list[dict[str, Any]]
"""A JSON patch (RFC 6902)."""

TEMPLATE, INSTANCE = "/spec/template/spec", "/spec"
"""Where the networks are: of a VirtualMachine, and of a VirtualMachineInstance."""


def move_network(networks: Sequence[VmNic], at: str, name: str, to: Key, namespace: str) -> Operations:
    """Return the patch that moves the network of that name to the NAD `to`; none if it is there already.

    `at` is `TEMPLATE` or `INSTANCE`; `namespace` is the machine's own. Raises Denied for a name that is no network's,
    or several networks', and for the pod network.
    """
    places = [place for place, item in enumerate(networks) if item.name == name]
    field = f"{at.removeprefix('/').replace('/', '.')}.networks"
    if len(places) != 1:
        how = "there is none" if not places else f"there are {len(places)}"
        raise Denied(f"{field} must have one network {quote(name)}; {how}")
    [place] = places
    multus = networks[place].multus
    if multus is None:
        raise Denied(f"{field}[{place}] ({name}) is the pod network, which has no NAD; name another network")
    if nad_of(multus, namespace) == to:
        return []
    item = f"{at}/networks/{place}"
    return [
        {"op": "test", "path": f"{item}/name", "value": name},
        {"op": "test", "path": f"{item}/multus/networkName", "value": multus.network_name},
        {
            "op": "replace",
            "path": f"{item}/multus/networkName",
            "value": title_of(to, namespace, multus.network_name),
        },
    ]


def unedited(machine: VirtualMachine) -> dict[str, Any]:
    """Return the test that a VirtualMachine was not edited since it was read.

    A controller's patch may arrive long after its sender gave it up. The values that it tests may be back by then, by
    edits in both directions; the generation is not.
    """
    return {"op": "test", "path": "/metadata/generation", "value": machine.metadata.generation}


def title_of(nad: Key, namespace: str, before: str = "") -> str:
    """Return `networkName` for a NAD of a machine in that namespace.

    A name alone stays a name alone where that is possible: manifests that users keep differ by the name only.
    """
    return nad.name if nad.namespace == namespace and "/" not in before else str(nad)
