"""Whether the manager isolates namespaces as Multus does on a node: the condition NamespaceIsolation of its LANNode.

Multus knows nothing of moves in place. Where it isolates namespaces and the manager does not, the node's agent refuses
the moves that Multus would, and an operator is to hear of it.
"""

from lanloom.api.lan import MultusReport
from lanloom.api.meta import Key
from lanloom.api.multusconfig import NamespaceIsolation, parse_global
from lanloom.kube.conditions import Finding

NAMESPACE_ISOLATION = "NamespaceIsolation"
"""The condition of a LANNode."""


def isolation_of(report: MultusReport) -> NamespaceIsolation:
    """Return what Multus has on a node."""
    return NamespaceIsolation(
        enabled=report.namespace_isolation, global_namespaces=parse_global(report.global_namespaces)
    )


def agreement(ours: NamespaceIsolation, report: MultusReport) -> Finding:
    """Return whether the manager refuses whatever Multus does on a node; it may refuse more."""
    theirs = isolation_of(report)
    if not theirs.enabled:
        if not ours.enabled:
            return Finding(
                "True", "Off", f"neither Multus ({report.file}) nor the manager isolates namespaces"
            )
        text = f"the manager isolates namespaces, and Multus ({report.file}) does not: pods may use more NADs"
        return Finding("True", "Stricter", text)
    if not ours.enabled:
        text = f"Multus ({report.file}) isolates namespaces, and the manager does not; {remedy(theirs)}"
        return Finding("False", "OptionMissing", text)
    if more := ours.global_namespaces - theirs.global_namespaces:
        text = (
            f"the manager lets every machine use NADs of {', '.join(sorted(more))}, and Multus ({report.file}) does "
            f"not; {remedy(theirs)}"
        )
        return Finding("False", "GlobalNamespacesDiffer", text)
    return Finding("True", "Agrees", f"Multus ({report.file}) and the manager isolate namespaces")


def remedy(theirs: NamespaceIsolation) -> str:
    """Return how the manager is to be started."""
    names = ",".join(sorted(theirs.global_namespaces))
    return f"start the manager with --namespace-isolation --global-namespaces={names}"


def against_move(report: MultusReport | None, namespace: str, nad: Key) -> str:
    """Return why a port of a machine of a namespace may not move to a NAD, by Multus' configuration on the node.

    Empty if it may, or if nothing is known of that.
    """
    theirs = isolation_of(report) if report is not None else NamespaceIsolation()
    why = theirs.against(namespace, nad)
    return (
        f"{why}. Multus isolates namespaces on this node, and the manager does not; {remedy(theirs)}"
        if why
        else ""
    )
