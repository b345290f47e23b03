"""What `kubectl apply` or `kubectl delete` of a manifest would make of a cluster's objects, by the webhooks' rules.

Manifests are read as `kubectl apply -f` reads them. Objects are applied one after the other, each in the cluster that
those before it left, and one that is refused changes nothing. Nothing here talks to a server.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.admission import AdmissionRequest, GroupVersionResource
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.features.vlan.admission import UPLINK_SECONDS, check_request
from lanloom.features.vlan.reader import ClusterReader, reader_of
from lanloom.features.vlan.rules.admit.l3 import uplinks_come
from lanloom.features.vlan.rules.admit.nadconfig import label_changes
from lanloom.features.vlan.rules.desired.reserved import Reserved, reserved
from lanloom.features.vlan.views import VlanObjects
from lanloom.kube.patches import merge, merge_diff

Raw = dict[str, Any]
T = TypeVar("T", bound=Object)

KINDS: dict[tuple[str, str], Resource[Any]] = {
    (resource.api_version, resource.kind): resource for resource in (CLUSTER_NETWORKS, VLAN_CONFIGS, NADS)
}
"""The kinds that a plan understands, by apiVersion and kind."""

_SUFFIXES = (".yaml", ".yml", ".json")


class ManifestError(Exception):
    """A manifest that can't be read; the message names the file and what is wrong."""


class Document(Struct, frozen=True):
    """One object of a manifest. `resource` is None for a kind that has nothing to do with VLAN networks."""

    title: str
    key: Key
    body: Raw
    resource: Resource[Any] | None


def read_files(paths: Iterable[str], standard_input: Iterator[str], namespace: str) -> tuple[Document, ...]:
    """Return the objects of files, directories and `-`, in their order. Raises ManifestError.

    `standard_input` gives the text behind `-` when it is asked; `namespace` is for objects that name none.
    """
    documents: list[Document] = []
    for path in paths:
        for source, text in _texts(path, standard_input):
            documents += read_text(source, text, namespace)
    return tuple(documents)


def _texts(path: str, standard_input: Iterator[str]) -> Iterator[tuple[str, str]]:
    if path == "-":
        yield "standard input", next(standard_input, "")
        return
    place = Path(path)
    files = (
        sorted(item for item in place.iterdir() if item.suffix in _SUFFIXES) if place.is_dir() else [place]
    )
    if not files:
        raise ManifestError(f"{path} has no file that ends in {', '.join(_SUFFIXES)}")
    for file in files:
        try:
            yield str(file), file.read_text()
        except OSError as error:
            raise ManifestError(f"can't read {file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ManifestError(f"{file} is not UTF-8 text") from None


def read_text(source: str, text: str, namespace: str) -> Iterator[Document]:
    """Yield the objects of a text; `source` is what it is called. Raises ManifestError."""
    try:
        loaded = list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        first = " ".join(str(error).split())
        raise ManifestError(f"{source} is not valid YAML: {first}") from None
    for number, item in enumerate(loaded, start=1):
        where = f"document {number} of {source}"
        if item is not None:
            yield from _objects(where, item, namespace)


def _objects(where: str, item: object, namespace: str) -> Iterator[Document]:
    if not isinstance(item, dict) or not all(
        isinstance(item.get(key), str) for key in ("apiVersion", "kind")
    ):
        raise ManifestError(f"{where} is not a Kubernetes object: it needs apiVersion, kind and metadata")
    if item["kind"] == "List" and isinstance(item.get("items"), list):
        for index, one in enumerate(item["items"]):
            yield from _objects(f"items[{index}] in {where}", one, namespace)
        return
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not (isinstance(name, str) and name):
        raise ManifestError(f"{where} has no metadata.name")
    resource = KINDS.get((item["apiVersion"], item["kind"]))
    own = metadata.get("namespace", namespace if resource is not None else "")
    if resource is not None and not resource.namespaced:
        own = ""
    key = Key(own if isinstance(own, str) else "", name)
    yield Document(f"{item['kind']} {key}", key, item, resource)


_FIELDS = {CLUSTER_NETWORKS.kind: "networks", VLAN_CONFIGS.kind: "configs", NADS.kind: "nads"}
_NOW = "9999-12-31T23:59:59Z"
"""When an object of a manifest would be created: after all that are there."""

Outcome = Literal["created", "changed", "unchanged", "deleted", "absent", "refused", "ignored"]


class Applied(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome for one object of the manifest. `message` says why it is refused or ignored."""

    object: str
    outcome: Outcome
    message: str = ""
    warnings: tuple[str, ...] = ()


def apply(objects: VlanObjects, document: Document) -> tuple[VlanObjects, Applied]:
    """Return the objects after a document was applied."""
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
    recorded = _recorded(new, document)
    if new == old:
        return _with(objects, resource, old, recorded), Applied(object=document.title, outcome="unchanged")
    request = _request("CREATE" if old is None else "UPDATE", resource, document, body, before)
    reader = _Expecting(cluster_reader(objects), objects)
    verdict = check_request(request, reader, coexisting=reader.coexisting)
    if not verdict.allowed:
        return objects, Applied(object=document.title, outcome="refused", message=verdict.message)
    outcome: Outcome = "created" if old is None else "changed"
    return (
        _with(objects, resource, old, recorded),
        Applied(object=document.title, outcome=outcome, warnings=(*verdict.warnings, *reader.warnings())),
    )


class _Expecting(ClusterReader):
    """The cluster when an apply would meet it: alongside Harvester requests wait for uplinks that agents are building.

    So do those for `mgmt`. A node has an agent if it has reported anything, which says whether Harvester is there.
    """

    def __init__(self, stored: ClusterReader, objects: VlanObjects) -> None:
        super().__init__(stored._stores, stored._facts)
        self._agents = {item.status.node for item in objects.statuses}
        self.coexisting = any(item.status.mode == "beside" for item in objects.statuses)
        self._expected: set[str] = set()

    def is_usable(self, cluster_network: str) -> bool:
        """Return whether a node has a working uplink, or an agent has still to say."""
        usable = super().is_usable(cluster_network)
        waits = self.coexisting or cluster_network == names.MGMT
        if usable or not waits or not self._agents & uplinks_come(cluster_network, self):
            return usable
        self._expected.add(cluster_network)
        return True

    def warnings(self) -> tuple[str, ...]:
        """Return what must come true."""
        return tuple(
            f"it is refused unless an uplink of {name} works within {UPLINK_SECONDS:g} seconds"
            for name in sorted(self._expected)
        )


def delete(objects: VlanObjects, document: Document) -> tuple[VlanObjects, Applied]:
    """Return the objects after those of a document were deleted."""
    resource = document.resource
    if resource is None:
        return objects, _ignored(document)
    old = _find(objects, resource, document)
    if old is None:
        return objects, Applied(object=document.title, outcome="absent", message="it does not exist")
    request = _request("DELETE", resource, document, None, msgspec.to_builtins(old))
    verdict = check_request(request, cluster_reader(objects))
    if not verdict.allowed:
        return objects, Applied(object=document.title, outcome="refused", message=verdict.message)
    return (
        _with(objects, resource, old, None),
        Applied(object=document.title, outcome="deleted", warnings=verdict.warnings),
    )


def cluster_reader(objects: VlanObjects, held: Reserved | None = None) -> ClusterReader:
    """Return the cluster as admission rules see it.

    `held` is what the nodes need for themselves, if not what they say.
    """
    mgmt = objects.reports_of(names.MGMT).values()
    return reader_of(
        networks=objects.networks,
        configs=objects.configs,
        nads=objects.nads,
        statuses=objects.statuses,
        host_networks=objects.host_networks,
        nodes=objects.nodes,
        vms=objects.vms,
        machines=objects.machines,
        reserved=held or reserved(objects.nodes, mgmt, ranges=objects.ranges),
    )


def _merged(live: Raw | None, document: Document, resource: Resource[Any]) -> Raw:
    """Return the object that the API server would be asked to store.

    Of its metadata only what a user may set counts.
    """
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


def _recorded(new: T, document: Document) -> T:
    """Return an object with what was applied, as kubectl records it: the same object may come again in the manifest."""
    annotations = {**new.metadata.annotations, LAST_APPLIED: json.dumps(document.body, default=str)}
    return replace(new, metadata=replace(new.metadata, annotations=annotations))


def _labelled(body: Raw, old: Object | None) -> Raw:
    """Return the body with the labels that the mutating webhook fills in."""
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
    message = "a plan shows nothing of this kind"
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


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_SETTABLE = ("labels", "annotations", "finalizers", "ownerReferences")
"""The metadata that a file may set, besides the name."""


# kubectl computes the patch itself (k8s.io/apimachinery, jsonmergepatch.CreateThreeWayJSONMergePatch), so its
# result can be computed without a server. Built-in kinds, whose lists kubectl merges by key, are not handled here.


def three_way(live: Raw, manifest: Raw, last: Raw) -> Raw:
    """Merge three forms of an object as `kubectl apply` merges custom resources.

    What the manifest holds is set, maps key by key and lists as a whole. What `last` holds and the manifest lacks is
    deleted: a whole map where the manifest lacks the map. `null` in the manifest deletes as well, unless `last` holds
    the same `null`: kubectl compares both files, and sees no difference.
    """
    additions = _additions(merge_diff(live, manifest))
    deletions = _deletions(merge_diff(last, manifest))
    patch: Raw = merge(deletions, additions)
    found: Raw = merge(live, patch)
    return found


def applied(live: Raw, manifest: Raw) -> Raw:
    """Return the object that `kubectl apply` of a manifest makes of `live`, whose annotation holds the one before."""
    return three_way(live, configuration(manifest), last_applied(live))


def last_applied(live: Raw) -> Raw:
    """Return what was applied last; empty if nothing was, or if the annotation can't be read."""
    text = _map(_map(live.get("metadata")).get("annotations")).get(LAST_APPLIED, "{}")
    try:
        return configuration(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return configuration({})


def configuration(manifest: object) -> Raw:
    """Return what of a manifest counts. It always has annotations, as kubectl writes its own among them."""
    body = {key: value for key, value in _map(manifest).items() if key not in ("status", "metadata")}
    metadata = _map(_map(manifest).get("metadata"))
    settable = {key: metadata[key] for key in _SETTABLE if key in metadata}
    annotations = dict(_map(settable.get("annotations")))
    annotations.pop(LAST_APPLIED, None)
    return body | {"metadata": settable | {"annotations": annotations}}


def _additions(patch: Raw) -> Raw:
    """Return a patch without its deletions. An empty map is a value; one that is left empty is not."""
    kept: Raw = {}
    for key, value in patch.items():
        if isinstance(value, dict) and value:
            if inner := _additions(value):
                kept[key] = inner
        elif value is not None:
            kept[key] = value
    return kept


def _deletions(patch: Raw) -> Raw:
    """Return a patch's deletions alone."""
    kept: Raw = {}
    for key, value in patch.items():
        if value is None:
            kept[key] = None
        elif isinstance(value, dict) and (inner := _deletions(value)):
            kept[key] = inner
    return kept


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
