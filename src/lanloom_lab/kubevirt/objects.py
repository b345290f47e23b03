"""KubeVirt's objects as its own controllers see them: whole specs and statuses, where Lanloom reads what it needs."""

from typing import Any

from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Object
from lanloom.api.resource import Resource

Raw = dict[str, Any]


class Whole(Object, frozen=True, kw_only=True):
    """An object with everything that is in its spec and its status."""

    spec: Raw = {}
    status: Raw = {}

    @property
    def phase(self) -> str:
        """How far it is."""
        return str(self.status.get("phase", ""))


def _whole(resource: Resource[Any]) -> Resource[Whole]:
    return Resource(
        group=resource.group,
        version=resource.version,
        kind=resource.kind,
        plural=resource.plural,
        type=Whole,
        namespaced=True,
    )


VMS = _whole(VIRTUAL_MACHINES)
VMIS = _whole(VIRTUAL_MACHINE_INSTANCES)
VMIMS = _whole(MIGRATIONS)

FINAL = ("Succeeded", "Failed")

VM_FINALIZER = "kubevirt.io/virtualMachineControllerFinalize"
VMI_FINALIZER = "kubevirt.io/foregroundDeleteVirtualMachine"
VMIM_FINALIZER = "kubevirt.io/migrationJobFinalize"
MIGRATION_LABEL = "kubevirt.io/migrationJobUID"
MIGRATION_NAME = "kubevirt.io/migrationJobName"
CREATED_BY = "kubevirt.io/created-by"
DOMAIN = "kubevirt.io/domain"
BANDWIDTH = "lab.lanloom.io/migration-bandwidth"
"""Annotation of an instance: the bytes that its migrations send in a second. With 0, they wait at a ready target."""

MACHINE_LABEL = "kubevirt.io/vmi-name"
"""Label of a migration: its instance."""

REVISION_PREFIX = "revision-start-vm-"
"""How the names of the ControllerRevisions begin in which KubeVirt keeps what machines were started from."""

REVISION_NAME = "virtualMachineRevisionName"
"""Field of an instance's status: the ControllerRevision of its start."""

GENERATION = "kubevirt.io/vm-generation"
NODE_LABEL = "kubevirt.io/nodeName"
TARGET_LABEL = "kubevirt.io/migrationTargetNodeName"


def owner(resource: Resource[Any], of: Object) -> Raw:
    """Return the reference that makes an object the controller of another."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": of.metadata.name,
        "uid": of.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
