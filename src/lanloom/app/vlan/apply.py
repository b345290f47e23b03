"""What `kubectl apply` or `kubectl delete` of a manifest would make of a cluster's objects, by the webhooks' rules.

Objects are applied one after the other, each in the cluster that those before it left, and one that is refused changes
nothing. Nothing here talks to a server.
"""

from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.admission import AdmissionRequest, GroupVersionResource
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.meta import Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.app.vlan.lastapplied import applied
from lanloom.app.vlan.manifests import Document, Raw
from lanloom.app.vlan.objects import VlanObjects
from lanloom.vlan.admission import judge
from lanloom.vlan.rules.admit_networks import label_changes
from lanloom.vlan.rules.reserved import reserved
from lanloom.vlan.worlds import FreshWorld, by_nad

_FIELDS = {CLUSTER_NETWORKS.kind: "networks", VLAN_CONFIGS.kind: "configs", NADS.kind: "nads"}
_NOW = "9999-12-31T23:59:59Z"
"""When an object of a manifest would be created: after all that are there."""

Outcome = Literal["created", "changed", "unchanged", "deleted", "absent", "refused", "ignored"]


class Applied(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What would become of one object of the manifest. `message` says why it is refused or ignored."""

    object: str
    outcome: Outcome
    message: str = ""
    warnings: tuple[str, ...] = ()


def apply(objects: VlanObjects, document: Document) -> tuple[VlanObjects, Applied]:
    """The objects after a document was applied."""
    resource = document.resource
    if resource is None:
        return objects, _ignored(document)
    old = _find(objects, resource, document)
    before = msgspec.to_builtins(old) if old is not None else None
    try:
        body = _labelled(_merged(before, document, resource), old)
        new = msgspec.convert(body, resource.type)
    except msgspec.ValidationError as error:
        message = f"can't read {document.title} because {error}"
        return objects, Applied(object=document.title, outcome="refused", message=message)
    if new == old:
        return objects, Applied(object=document.title, outcome="unchanged")
    request = _request("CREATE" if old is None else "UPDATE", resource, document, body, before)
    verdict = judge(request, world_of(objects))
    if not verdict.allowed:
        return objects, Applied(object=document.title, outcome="refused", message=verdict.message)
    outcome: Outcome = "created" if old is None else "changed"
    return (
        _with(objects, resource, old, new),
        Applied(object=document.title, outcome=outcome, warnings=verdict.warnings),
    )


def delete(objects: VlanObjects, document: Document) -> tuple[VlanObjects, Applied]:
    """The objects after those of a document were deleted."""
    resource = document.resource
    if resource is None:
        return objects, _ignored(document)
    old = _find(objects, resource, document)
    if old is None:
        return objects, Applied(object=document.title, outcome="absent", message="it is not there")
    request = _request("DELETE", resource, document, None, msgspec.to_builtins(old))
    verdict = judge(request, world_of(objects))
    if not verdict.allowed:
        return objects, Applied(object=document.title, outcome="refused", message=verdict.message)
    return (
        _with(objects, resource, old, None),
        Applied(object=document.title, outcome="deleted", warnings=verdict.warnings),
    )


def world_of(objects: VlanObjects) -> FreshWorld:
    """The cluster as admission rules see it."""
    mgmt = objects.reports_of(names.MGMT).values()
    return FreshWorld(
        networks=objects.networks,
        configs=objects.configs,
        nads=objects.nads,
        statuses=objects.statuses,
        vms=by_nad(objects.vms),
        machines=objects.machines,
        known_nodes={item.metadata.name: item for item in objects.nodes},
        known_reserved=reserved(objects.nodes, mgmt),
    )


def _merged(live: Raw | None, document: Document, resource: Resource[Any]) -> Raw:
    """The object that the API server would be asked to store. Of its metadata only what a user may set counts."""
    known = live if live is not None else {"metadata": {"creationTimestamp": _NOW}}
    merged = applied(known, document.body)
    merged["metadata"] |= {"name": document.key.name}
    if resource.namespaced:
        merged["metadata"]["namespace"] = document.key.namespace
    if live is not None:  # items of a list carry neither, and an object must not change by gaining them
        merged = {
            key: value for key, value in merged.items() if key not in ("apiVersion", "kind") or key in live
        }
    return merged


def _labelled(body: Raw, old: Object | None) -> Raw:
    """With the labels that the mutating webhook fills in."""
    spec = body.get("spec")
    if (
        not isinstance(old, NetworkAttachmentDefinition | None)
        or not isinstance(spec, dict)
        or "config" not in spec
    ):
        return body
    new = msgspec.convert(body, NetworkAttachmentDefinition)
    labels = {**new.metadata.labels, **label_changes(new, old)}
    kept = {key: value for key, value in labels.items() if value is not None}
    return body | {"metadata": body["metadata"] | {"labels": kept}}


def _request(
    operation: str, resource: Resource[Any], document: Document, new: Raw | None, old: Raw | None
) -> AdmissionRequest:
    return AdmissionRequest(
        uid="plan",
        operation=operation,
        resource=GroupVersionResource(resource.group, resource.version, resource.plural),
        name=document.key.name,
        namespace=document.key.namespace,
        object=new,
        old_object=old,
        dry_run=True,
    )


def _ignored(document: Document) -> Applied:
    message = "this kind has nothing to do with VLAN networks"
    return Applied(object=document.title, outcome="ignored", message=message)


def _find(objects: VlanObjects, resource: Resource[Any], document: Document) -> Object | None:
    items: tuple[Object, ...] = getattr(objects, _FIELDS[resource.kind])
    return next((item for item in items if item.metadata.key == document.key), None)


def _with(
    objects: VlanObjects, resource: Resource[Any], old: Object | None, new: Object | None
) -> VlanObjects:
    field = _FIELDS[resource.kind]
    others = tuple(item for item in getattr(objects, field) if item is not old)
    return replace(objects, **{field: others if new is None else (*others, new)})
