"""Plan a pasted manifest in the console: what it would change on which node, by the functions of `lanloom vlan plan`.

Nothing is sent to the API server but reads. The plan of one network begins with its manifest as it is.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import yaml
from msgspec import Struct, to_builtins

from lanloom.api.core import NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS
from lanloom.api.names import MATCHED_NODES
from lanloom.api.resource import Resource
from lanloom.cli.query import Field, Query
from lanloom.console.page import Content, Form, Names, NoSuchPage, NotReady, Page, Table
from lanloom.features.vlan.views import read_objects
from lanloom.features.vlan.views.apply import LAST_APPLIED, Applied, Document, ManifestError, read_text
from lanloom.features.vlan.views.plan import SIGNS, VlanPlan, alike, plan, title, words
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Reader

DELETE = "delete"

_WRITTEN = frozenset({LAST_APPLIED, MATCHED_NODES})
"""Annotations that programs write."""

HINT = (
    "See what ClusterNetworks, VlanConfigs and NetworkAttachmentDefinitions would change on which node. "
    "Nothing is changed, neither in the cluster nor on a node."
)

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_VALUES, _LEVELS = 30_000, 100
"""Values and levels of a manifest: a thousand objects have fewer."""

_NUMBER, _TAG_DIRECTIVES = 400, 8
_BEGINS = re.compile(r"[-+.0-9]").match
"""How a number begins, among which is everything that YAML reads as one."""


class Step(Struct, frozen=True):
    """One change, with the nodes on which it would happen."""

    where: str
    verb: str
    what: str


OBJECT_FIELDS: Query[Applied] = Query(
    (
        Field("object", "Object", "text", "Object", lambda item: item.object),
        Field("outcome", "Outcome", "text", "What would become of it", lambda item: item.outcome),
        Field("message", "Message", "text", "Why", lambda item: "; ".join((item.message, *item.warnings))),
    ),
    ("object", "outcome"),
)
"""The objects of a manifest."""

STEP_FIELDS: Query[Step] = Query(
    (
        Field("where", "Where", "text", "Cluster network and nodes", lambda item: item.where),
        Field("change", "Change", "text", "What", lambda item: f"{SIGNS[item.verb]} {item.what}"),
    ),
    ("where", "change"),
)
"""The changes of nodes."""


async def ask(_client: Reader, _names: Names) -> Content:
    """Return the empty form."""
    return Content(title="Plan", form=_form("", frozenset()))


async def ask_network(client: Reader, names: Names) -> Content:
    """Return the form with the manifest of a NAD. Raises NoSuchPage, KubeError."""
    nad = await get_or_none(client, NADS, Key(names["namespace"], names["name"]))
    if nad is None:
        raise NoSuchPage(f"there is no NetworkAttachmentDefinition {names['namespace']}/{names['name']}")
    return Content(title=f"Plan {nad.metadata.key}", form=_form(manifest([(NADS, nad)]), frozenset()))


async def ask_cluster_network(client: Reader, names: Names) -> Content:
    """Return the form with the manifest of a cluster network and its VlanConfigs. Raises NoSuchPage, KubeError."""
    name = names["name"]
    found = await get_or_none(client, CLUSTER_NETWORKS, Key("", name))
    if found is None:
        raise NoSuchPage(f"there is no ClusterNetwork {name}")
    configs = (await client.list(VLAN_CONFIGS)).items
    objects: list[tuple[Resource[Any], Object]] = [(CLUSTER_NETWORKS, found)]
    objects += [(VLAN_CONFIGS, item) for item in configs if item.spec.cluster_network == name]
    return Content(title=f"Plan {name}", form=_form(manifest(objects), frozenset()))


def manifest(objects: Iterable[tuple[Resource[Any], Object]]) -> str:
    """Return what users write of objects, as YAML: names, labels, annotations and specifications."""
    documents = []
    for resource, item in objects:
        meta = item.metadata
        annotations = {key: text for key, text in meta.annotations.items() if key not in _WRITTEN}
        given = {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": meta.labels,
            "annotations": annotations,
        }
        document = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {key: value for key, value in given.items() if value},
            "spec": to_builtins(getattr(item, "spec", None)),
        }
        documents.append({key: value for key, value in document.items() if value})
    return str(yaml.safe_dump_all(documents, sort_keys=False))


async def answer(client: Reader, _names: Names, given: Mapping[str, str]) -> Content:
    """Return what a manifest would change, or why it can't be read. Raises KubeError."""
    text, deleting = given.get("text", ""), DELETE in given
    form = _form(text, frozenset({DELETE} if deleting else ()))
    try:
        documents = await asyncio.to_thread(read, text)
    except ManifestError as error:
        return Content(title="Plan", form=form, not_ready=NotReady("Unreadable", str(error)))
    objects = await read_objects(client, with_vms=True)
    found = await asyncio.to_thread(plan, objects, documents, deleting=deleting)
    return _content(found, form)


def _form(text: str, chosen: frozenset[str]) -> Form:
    options = ((DELETE, "Plan the deletion of these objects"),)
    return Form(
        hint=HINT, label="Manifest, YAML or JSON", button="Plan", text=text, options=options, chosen=chosen
    )


def read(text: str) -> tuple[Document, ...]:
    """Read a manifest of any user. Raises ManifestError, also for what takes much more to read than its size says.

    PyYAML would read it on the stack of C, and end the process at a deep one; libyaml and integers of base 60 take
    quadratic time; and a short text with aliases can stand for any amount of memory.
    """
    if text.count("%TAG") > _TAG_DIRECTIVES:
        raise ManifestError(f"the manifest has more than {_TAG_DIRECTIVES} %TAG directives; remove them")
    with suppress(yaml.YAMLError, RecursionError, ValueError):  # which the reader below reports
        _check(yaml.parse(text, Loader=LOADER))
    return tuple(read_text("the manifest", text, "default"))


def _check(events: Iterable[yaml.Event]) -> None:
    level = values = 0
    for event in events:
        match event:
            case yaml.AliasEvent():
                raise ManifestError("the manifest has a YAML alias (*name); write the value out")
            case yaml.ScalarEvent():
                values += 1
                if len(event.value) > _NUMBER and (event.tag or (event.implicit[0] and _BEGINS(event.value))):
                    raise ManifestError(
                        f"the manifest has a number of more than {_NUMBER} characters; shorten it, or quote it as text"
                    )
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                level, values = level + 1, values + 1
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                level -= 1
        if level > _LEVELS:
            raise ManifestError(f"the manifest is nested more than {_LEVELS} levels deep; reduce the nesting")
        if values > _VALUES:
            raise ManifestError(f"the manifest holds more than {_VALUES} values; plan it in parts")


def _content(found: VlanPlan, form: Form) -> Content:
    count = len({item.node for item in found.nodes})
    steps = [
        Step(title(network, nodes), change.verb, words(change))
        for network, nodes, changes in alike(found.nodes)
        for change in changes
    ]
    tables = (
        Table(title="Objects", query=OBJECT_FIELDS, rows=found.objects, not_ready=_not_ready),
        Table(title="Changes on nodes", query=STEP_FIELDS, rows=steps),
    )
    return Content(
        title=f"{count} node{'s' * (count > 1)} would change" if count else "No node would change",
        facts=(("Notes", " ".join(found.notes)),),
        form=form,
        tables=tables,
    )


def _not_ready(item: Applied) -> NotReady | None:
    if item.outcome == "refused":
        return NotReady("Refused", item.message)
    said = "; ".join(filter(None, (item.message, *item.warnings)))
    return NotReady("Note", said, under_way=True) if said else None


_COMMAND = "lanloom vlan plan -f FILE"

PLANS = (
    Page(
        path="/plan",
        menu="Plan",
        front=False,
        command=_COMMAND,
        kinds=(NODES, CLUSTER_NETWORKS),
        read=ask,
        answer=answer,
    ),
    Page(
        path="/networks/{namespace}/{name}/plan",
        command=_COMMAND,
        kinds=(NODES, CLUSTER_NETWORKS, NADS),
        read=ask_network,
        answer=answer,
    ),
    Page(
        path="/cluster-networks/{name}/plan",
        command=_COMMAND,
        kinds=(NODES, CLUSTER_NETWORKS, VLAN_CONFIGS),
        read=ask_cluster_network,
        answer=answer,
    ),
)
