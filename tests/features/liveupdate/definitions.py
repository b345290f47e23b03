"""KubeVirt's CustomResourceDefinitions as far as tests need them: every field is allowed, and kept."""

from typing import Any

from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.kubevirtconfig import KUBEVIRTS
from lanloom.api.resource import Resource

Raw = dict[str, Any]

KINDS: tuple[Resource[Any], ...] = (KUBEVIRTS, VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, MIGRATIONS)


def definition(resource: Resource[Any]) -> Raw:
    """Return the definition of one kind; instances have no status subresource, as in KubeVirt."""
    version: Raw = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    if resource.status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.full_name},
        "spec": {
            "group": resource.group,
            "names": {"plural": resource.plural, "singular": resource.singular, "kind": resource.kind},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
