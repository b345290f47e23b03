"""KubeVirt's machines raw, with all fields that they have on the wire, and what KubeVirt keeps of their starts.

What is followed by a watch holds only the fields that Lanloom uses, of thousands of machines. A comparison of whole
specs, and a copy of a NIC, need the others too: of one machine, read when it is needed.
"""

from typing import Any

from msgspec.structs import replace

from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Object
from lanloom.api.resource import Resource


class RawMachine(Object, frozen=True, kw_only=True):
    """A VirtualMachine or an instance of one."""

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


def _raw(resource: Resource[Any]) -> Resource[RawMachine]:
    return replace(resource, type=RawMachine)


class ControllerRevision(Object, frozen=True, kw_only=True):
    """A state of an object that its controller keeps. `data` is as on the wire; KubeVirt's has a machine's `spec`."""

    data: dict[str, Any] = {}


CONTROLLER_REVISIONS = Resource(
    group="apps",
    version="v1",
    kind="ControllerRevision",
    plural="controllerrevisions",
    type=ControllerRevision,
    namespaced=True,
)

RAW_MACHINES = _raw(VIRTUAL_MACHINES)
RAW_INSTANCES = _raw(VIRTUAL_MACHINE_INSTANCES)
