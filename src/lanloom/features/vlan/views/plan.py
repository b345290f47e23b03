"""What a manifest would change, node by node: the values behind `lanloom vlan plan`, and the same in words."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.bonds import render_value
from lanloom.api.harvester import ClusterNetwork, VlanConfig
from lanloom.api.l3 import AnnotationError
from lanloom.api.meta import Object
from lanloom.features.vlan.rules.desired.holds import asked_sources
from lanloom.features.vlan.rules.desired.network import Interface, NodeNetwork
from lanloom.features.vlan.rules.desired.node import node_networks
from lanloom.features.vlan.rules.report.cluster import (
    annotation_patch,
    derive_annotations,
    is_live,
    matched_annotation,
    matching,
)
from lanloom.features.vlan.rules.rollout.policy import Percentage, parse_rollout
from lanloom.features.vlan.views import VlanObjects
from lanloom.features.vlan.views.apply import Applied, Document, apply, delete
from lanloom.node.vlanids import VlanIds, render, subtract

Verb = Literal["add", "change", "remove"]

NAMED = 5
"""A plan names so many nodes where the same happens to many; of more, the number."""

SIGNS = {"add": "+", "change": "~", "remove": "-"}
"""What stands before a change, by its verb."""


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that changes: what kind of thing, its name on the node, and what was and what will be said of it."""

    verb: Verb
    kind: str
    name: str
    before: str = ""
    after: str = ""


class NodeChanges(Struct, frozen=True, kw_only=True, rename="camel"):
    """The changes of one cluster network on one node."""

    node: str
    cluster_network: str
    changes: tuple[Change, ...]


class VlanPlan(Struct, frozen=True, kw_only=True):
    """A manifest's consequences. `notes` say how the changes would reach the nodes."""

    objects: tuple[Applied, ...]
    nodes: tuple[NodeChanges, ...]
    notes: tuple[str, ...]

    @property
    def refused(self) -> bool:
        """Whether any object would be refused."""
        return any(item.outcome == "refused" for item in self.objects)


def plan(objects: VlanObjects, documents: Iterable[Document], *, deleting: bool = False) -> VlanPlan:
    """Return the changes by applying, or deleting, the documents. Refused ones change nothing."""
    step = delete if deleting else apply
    after, outcomes = objects, []
    for document in documents:
        after, outcome = step(after, document)
        outcomes.append(outcome)
    nodes = _differences(objects, after)
    return VlanPlan(objects=tuple(outcomes), nodes=nodes, notes=tuple(_notes(after, nodes)))


def _differences(before: VlanObjects, after: VlanObjects) -> tuple[NodeChanges, ...]:
    old, new = carried(derived(before)), carried(derived(after))
    found = []
    for node in sorted(new):
        for network in sorted({*old[node], *new[node]}):
            different = changes(old[node].get(network), new[node].get(network))
            if different:
                found.append(NodeChanges(node=node, cluster_network=network, changes=different))
    return tuple(found)


def _notes(objects: VlanObjects, nodes: tuple[NodeChanges, ...]) -> Iterable[str]:
    if objects.coexisting:
        yield "Harvester's controller manages the uplinks; its changes are not shown."
    touched = {item.node for item in nodes}
    down = [
        item.metadata.name for item in objects.nodes if not is_live(item) and item.metadata.name in touched
    ]
    if down:
        yield f"Not Ready now, and changed when they return: {', '.join(sorted(down))}."
    for name in sorted({item.cluster_network for item in nodes}):
        network = objects.network(name)
        if network is not None and names.ROLLOUT in network.metadata.annotations:
            yield _rollout_note(name, network.metadata.annotations[names.ROLLOUT])


def _rollout_note(name: str, text: str) -> str:
    try:
        policy = parse_rollout(text)
    except AnnotationError as error:
        return f"{name} has a roll-out policy that can't be read: {error}"
    most = policy.max_unavailable
    limit = f"{most.value}% of the nodes" if isinstance(most, Percentage) else f"{most}"
    first = f"{', '.join(policy.canary)} first, then " if policy.canary else ""
    return f"{name} is rolled out {first}with at most {limit} unavailable at a time; a failure stops it."


T = TypeVar("T", bound=Object)
V = TypeVar("V", bound=VlanObjects)

CLUSTER = "lanloom"
"""The agent's default for the cluster to which profiles belong."""


def derived(objects: V) -> V:
    """Return the objects with everything that a manager derives from them: matched nodes and L3 annotations.

    Alongside Harvester's controller, that one matches nodes; it would do so by the same rule.
    """
    configs = tuple(_matched(config, objects) for config in objects.configs)
    known = replace(objects, configs=configs)
    return replace(known, networks=tuple(_annotated(network, known) for network in known.networks))


def carried(objects: VlanObjects) -> dict[str, dict[str, NodeNetwork]]:
    """Return the desired state: node → cluster network → network. The objects must be derived."""
    reports = objects.reports_of(names.MGMT)
    result = {}
    for node in sorted(item.metadata.name for item in objects.nodes):
        report = reports.get(node)
        found = node_networks(
            node,
            CLUSTER,
            objects.networks,
            objects.configs,
            objects.nads,
            management=report.status.management if report else None,
            coexisting=objects.coexisting,
        )
        result[node] = {item.cluster_network: item for item in found}
    return result


def _matched(config: VlanConfig, objects: VlanObjects) -> VlanConfig:
    nodes = matching(config.spec.node_selector, objects.nodes)
    return annotated(config, {names.MATCHED_NODES: matched_annotation(nodes)})


def _annotated(network: ClusterNetwork, objects: VlanObjects) -> ClusterNetwork:
    name = network.metadata.name
    host_networks = (item for item in objects.host_networks if item.spec.cluster_network == name)
    found = derive_annotations(
        network,
        objects.nads_of(name),
        objects.configs_of(name),
        host_networks=host_networks,
        coexisting=objects.coexisting,
    )
    patch = annotation_patch(network, found.annotations)
    if name == names.MGMT:
        patch[names.MATCHED_NODES] = matched_annotation(matching({}, objects.nodes))
    return annotated(network, patch)


def annotated(item: T, patch: Mapping[str, str | None]) -> T:
    """Return an object with a merge patch applied to its annotations."""
    merged = {**item.metadata.annotations, **patch}
    annotations = {key: value for key, value in merged.items() if value is not None}
    return replace(item, metadata=replace(item.metadata, annotations=annotations))


class _Fact(NamedTuple):
    """A thing that a node has."""

    kind: str
    name: str


def changes(before: NodeNetwork | None, after: NodeNetwork | None) -> tuple[Change, ...]:
    """Return the changes between two forms; None where the node does not carry the network."""
    old, new = _facts(before), _facts(after)
    found = [*_id_changes(before, after)]
    for fact in (*new, *(fact for fact in old if fact not in new)):
        was, will = old.get(fact), new.get(fact)
        if was != will:
            verb: Verb = "add" if was is None else "remove" if will is None else "change"
            values = (was or "", will or "") if fact.kind != _PROFILE else ("", "")
            found.append(Change(verb=verb, kind=fact.kind, name=fact.name, before=values[0], after=values[1]))
    return tuple(sorted(found, key=lambda item: _ORDER.index(item.kind)))


_PROFILE = "profile"
"""Its content differs from node to node and is not shown."""

_ORDER = ("bond", "NICs", "bridge", "MTU", "VLAN ids", "interface", _PROFILE, "problem")


def _facts(network: NodeNetwork | None) -> dict[_Fact, str]:
    if network is None:
        return {}
    facts = {} if network.foreign else _uplink_facts(network)
    for item in network.interfaces:
        facts[_Fact("interface", item.name)] = _address(item)
        facts[_Fact(_PROFILE, item.file)] = item.content.decode(errors="replace")
    for problem in (*network.problems, *network.uplink_problems):
        facts[_Fact("problem", f"{problem.reason} of {problem.network}")] = problem.message
    return facts


def _uplink_facts(network: NodeNetwork) -> dict[_Fact, str]:
    bond = f"{network.mode}, miimon {network.miimon}"
    for name, value in network.settings.asked().items():
        bond += f", {name} {render_value(value)}"
    if network.mac:
        bond += f", address {network.mac}"
    if network.tx_queue_length is not None:
        bond += f", queue of {network.tx_queue_length}"
    return {
        _Fact("bond", network.bond): bond,
        _Fact("NICs", network.bond): ", ".join(network.nics),
        _Fact("bridge", network.bridge): "with VLAN filtering",
        _Fact("MTU", f"{network.bond} and {network.bridge}"): str(network.mtu),
    }


def _address(item: Interface) -> str:
    table = f", routing table {item.table}" if item.table else ""
    return f"{asked_sources(item, 'address by DHCP')} of {item.network}{table}"


def _id_changes(before: NodeNetwork | None, after: NodeNetwork | None) -> Iterator[Change]:
    known = after or before
    if known is None:
        return
    ids: tuple[tuple[str, VlanIds, VlanIds], ...] = (
        (known.bond, before.uplink_ids if before else (), after.uplink_ids if after else ()),
        (known.bridge, before.bridge_ids if before else (), after.bridge_ids if after else ()),
    )
    for link, old, new in ids[1:] if known.delegated else ids:  # its uplink is another controller's business
        if gone := subtract(old, new):
            yield Change(verb="remove", kind="VLAN ids", name=link, before=render(gone))
        if added := subtract(new, old):
            yield Change(verb="add", kind="VLAN ids", name=link, after=render(added))


def alike(nodes: tuple[NodeChanges, ...]) -> list[tuple[str, tuple[str, ...], list[Change]]]:
    """Return the changes of each cluster network that happen to the same nodes, together; those of most nodes first."""
    where: dict[tuple[str, Change], list[str]] = {}
    for item in nodes:
        for change in item.changes:
            where.setdefault((item.cluster_network, change), []).append(item.node)
    groups: dict[tuple[str, tuple[str, ...]], list[Change]] = {}
    for (network, change), found in where.items():
        groups.setdefault((network, tuple(found)), []).append(change)
    ordered = sorted(groups.items(), key=lambda group: (group[0][0], -len(group[0][1]), group[0][1]))
    return [(network, on, changes) for (network, on), changes in ordered]


def title(network: str, nodes: tuple[str, ...]) -> str:
    """Return the heading of changes: the cluster network, and nodes by name as far as they are few."""
    if len(nodes) <= NAMED:
        return f"{network} on {', '.join(nodes)}"
    return f"{network} on {', '.join(nodes[:NAMED])} and {len(nodes) - NAMED} more nodes"


def words(change: Change) -> str:
    """Return one change in words."""
    what, value = f"{change.kind} {change.name}", change.after or change.before
    match change.kind, change.verb:
        case "profile", "change":
            return f"{what}: rewritten and applied"
        case (("profile" | "bridge"), _):
            return what
        case (("NICs" | "VLAN ids" | "MTU"), ("add" | "remove")):
            return f"{change.kind} {value} of {change.name}"
        case (("NICs" | "MTU"), _):
            return f"{change.kind} of {change.name}: {change.before} → {change.after}"
        case _, "change":
            return f"{what}: {change.before} → {change.after}"
    return f"{what}: {value}"
