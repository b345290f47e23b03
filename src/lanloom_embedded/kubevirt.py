"""KubeVirt's kinds, for a server that has machines without KubeVirt.

Any field is kept, as the definitions of KubeVirt's own keep far more than Lanloom knows. Subresources, names and
columns are those of KubeVirt: an instance has its status among its other fields.
"""

from typing import Any

from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.kubevirtconfig import KUBEVIRTS
from lanloom.api.resource import Column, Resource

Raw = dict[str, Any]

_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_PHASE = Column("Phase", ".status.phase")
_READY = Column("Ready", ".status.conditions[?(@.type=='Ready')].status")

_COLUMNS = {
    "VirtualMachine": (_AGE, Column("Status", ".status.printableStatus"), _READY),
    "VirtualMachineInstance": (
        _AGE,
        _PHASE,
        Column("NodeName", ".status.nodeName"),
        _READY,
        Column("Live-Migratable", ".status.conditions[?(@.type=='LiveMigratable')].status", priority=1),
    ),
    "KubeVirt": (_AGE, _PHASE),
    "VirtualMachineInstanceMigration": (_PHASE, Column("VMI", ".spec.vmiName"), _AGE),
}


def definitions() -> tuple[Raw, ...]:
    """Return the CRDs."""
    kinds = (KUBEVIRTS, VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, MIGRATIONS)
    return tuple(_definition(kind) for kind in kinds)


def _definition(resource: Resource[Any]) -> Raw:
    whole = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version: Raw = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": whole},
        "additionalPrinterColumns": [_column(item) for item in _COLUMNS[resource.kind]],
    }
    if resource is not VIRTUAL_MACHINE_INSTANCES:
        version["subresources"] = {"status": {}}
    names = {
        "plural": resource.plural,
        "singular": resource.singular,
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "shortNames": [*resource.short_names, *(f"{name}s" for name in resource.short_names)],
        "categories": ["all"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.full_name},
        "spec": {"group": resource.group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def _column(column: Column) -> Raw:
    made: Raw = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    return made | ({"priority": column.priority} if column.priority else {})
