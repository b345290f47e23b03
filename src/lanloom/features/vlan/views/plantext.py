"""A plan in words, for the command line and the console alike."""

from lanloom.features.vlan.views.plan import Change, NodeChanges

NAMED = 5
"""A plan names so many nodes where the same happens to many; of more, the number."""

SIGNS = {"add": "+", "change": "~", "remove": "-"}
"""What stands before a change, by its verb."""


def alike(nodes: tuple[NodeChanges, ...]) -> list[tuple[str, tuple[str, ...], list[Change]]]:
    """Return the changes of each cluster network that happen to the same nodes, together; those of most nodes first."""
    where: dict[tuple[str, Change], list[str]] = {}
    for item in nodes:
        for change in item.changes:
            where.setdefault((item.cluster_network, change), []).append(item.node)
    groups: dict[tuple[str, tuple[str, ...]], list[Change]] = {}
    for (network, change), names in where.items():
        groups.setdefault((network, tuple(names)), []).append(change)
    ordered = sorted(groups.items(), key=lambda group: (group[0][0], -len(group[0][1]), group[0][1]))
    return [(network, names, changes) for (network, names), changes in ordered]


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
