"""What a manifest would change, node by node: the values behind `lanloom vlan plan`."""

from collections.abc import Iterable

from msgspec import Struct

from lanloom.api import names
from lanloom.api.l3 import AnnotationError
from lanloom.api.rollout import Percentage, parse_rollout
from lanloom.app.vlan.apply import Applied, apply, delete
from lanloom.app.vlan.derived import carried, derived
from lanloom.app.vlan.diff import Change, changes
from lanloom.app.vlan.manifests import Document
from lanloom.app.vlan.objects import VlanObjects
from lanloom.vlan.rules.cluster import is_live


class NodeChanges(Struct, frozen=True, kw_only=True, rename="camel"):
    """What changes of one cluster network on one node."""

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
    """What applying, or deleting, the documents would change. Refused ones change nothing, the others are planned."""
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
