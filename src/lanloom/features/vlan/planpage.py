"""Plan a pasted manifest in the console: what it would change on which node, by the functions of `lanloom vlan plan`.

Nothing is sent to the API server but reads.
"""

import asyncio
from collections.abc import Mapping

import yaml
from msgspec import Struct

from lanloom.api.core import NODES
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.cli.query import Field, Query
from lanloom.console.page import Content, Form, Names, Page, Table, Trouble
from lanloom.features.vlan.views import read_objects
from lanloom.features.vlan.views.apply import Applied, Document, ManifestError, read_text
from lanloom.features.vlan.views.plan import VlanPlan, plan
from lanloom.features.vlan.views.planwords import SIGNS, alike, title, words
from lanloom.kube.ports import Reader

DELETE = "delete"

HINT = (
    "See what ClusterNetworks, VlanConfigs and NetworkAttachmentDefinitions would change on which node. "
    "Nothing is changed, neither in the cluster nor on a node."
)

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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


async def answer(client: Reader, _names: Names, given: Mapping[str, str]) -> Content:
    """Return what a manifest would change, or why it can't be read. Raises KubeError."""
    text, deleting = given.get("text", ""), DELETE in given
    form = _form(text, frozenset({DELETE} if deleting else ()))
    try:
        documents = _read(text)
    except ManifestError as error:
        return Content(title="Plan", form=form, trouble=Trouble("Unreadable", str(error)))
    objects = await read_objects(client, with_vms=True)
    found = await asyncio.to_thread(plan, objects, documents, deleting=deleting)
    return _content(found, form)


def _form(text: str, chosen: frozenset[str]) -> Form:
    options = ((DELETE, "Plan the deletion of these objects"),)
    return Form(
        hint=HINT, label="Manifest, YAML or JSON", button="Plan", text=text, options=options, chosen=chosen
    )


def _read(text: str) -> tuple[Document, ...]:
    """Read a manifest. Aliases are refused: a short text with them can stand for any amount of memory."""
    try:
        if any(isinstance(item, yaml.AliasEvent) for item in yaml.parse(text, Loader=LOADER)):
            raise ManifestError("the manifest has a YAML alias (*name); write the value out")
    except (yaml.YAMLError, RecursionError, ValueError):
        pass  # told by the reader below
    return tuple(read_text("the manifest", text, "default"))


def _content(found: VlanPlan, form: Form) -> Content:
    count = len({item.node for item in found.nodes})
    steps = [
        Step(title(network, nodes), change.verb, words(change))
        for network, nodes, changes in alike(found.nodes)
        for change in changes
    ]
    tables = [Table(title="Objects", query=OBJECT_FIELDS, rows=found.objects, trouble=_trouble)]
    tables += [Table(title="Changes on nodes", query=STEP_FIELDS, rows=steps)] if steps else []
    return Content(
        title=f"{count} node{'s' * (count > 1)} would change" if count else "No node would change",
        facts=(("Notes", " ".join(found.notes)),),
        form=form,
        tables=tables,
    )


def _trouble(item: Applied) -> Trouble | None:
    if item.outcome == "refused":
        return Trouble("Refused", item.message)
    said = "; ".join(filter(None, (item.message, *item.warnings)))
    return Trouble("Note", said, under_way=True) if said else None


PLAN = Page(
    path="/plan",
    menu="Plan",
    front=False,
    command="lanloom vlan plan -f FILE",
    kinds=(NODES, CLUSTER_NETWORKS),
    read=ask,
    answer=answer,
)
