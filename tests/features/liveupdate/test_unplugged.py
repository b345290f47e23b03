"""A NIC with the state `absent`: it is to go, and is there until its pod is without it."""

from typing import Any

import pytest

from lanloom.api.core import Pod
from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance
from lanloom.api.reading import convert
from lanloom.features.liveupdate.machines import Objects, machines_of
from lanloom.features.liveupdate.views import view_of
from tests.features.liveupdate import objects


def spec(state: str) -> dict[str, Any]:
    """A template, or an instance, with the NIC blue in a state."""
    nic = objects.interface("blue", **({"state": state} if state else {}))
    return objects.devices([objects.POD_INTERFACE, nic], [objects.POD_NETWORK, objects.network("blue", "a")])


@pytest.mark.parametrize(
    ("template", "instance", "attached", "state"),
    [
        ("", "", True, "Ready"),
        ("absent", "", True, "Waiting"),
        ("absent", "absent", True, "Waiting"),
        ("absent", "absent", False, "Ready"),
        ("down", "down", True, "Ready"),
    ],
)
def test_a_nic_that_is_to_go(template: str, instance: str, attached: bool, state: str) -> None:
    """It is wanted nowhere, and its machine waits until the pod is without it; a link that is down is no such NIC."""
    vmi = objects.instance(spec(instance), owner="vm", interfaces=[objects.status("blue")])
    vmi["metadata"] |= {"uid": "vmi"}
    titles = {"blue": f"{objects.PLACE}/a"} if attached else {}
    [found] = machines_of(
        Objects(
            machines=(convert(objects.machine(spec(template), uid="vm"), VirtualMachine),),
            instances=(convert(vmi, VirtualMachineInstance),),
            pods=(convert(objects.launcher("vmi", titles), Pod),),
        )
    )
    shown = view_of(found)
    nic = next(item for item in shown.nics if item.name == "blue")
    assert (shown.state, nic.wanted) == (state, "" if template == "absent" else f"{objects.PLACE}/a")
