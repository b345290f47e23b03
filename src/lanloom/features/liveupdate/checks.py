"""What `lanloom doctor` says of live update: who acts, and whether Multus and the manager isolate namespaces alike."""

import asyncio
from collections.abc import Iterable

from lanloom.api.core import NODES
from lanloom.api.kubevirtconfig import KUBEVIRTS
from lanloom.api.lan import LAN_NODES, LANNode
from lanloom.features.liveupdate.rules.isolation import NAMESPACE_ISOLATION
from lanloom.features.liveupdate.rules.mode import Mode, mode_of
from lanloom.kube.conditions import find
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Client
from lanloom.runtime.feature import Check
from lanloom.text import listed

_NAME, _LIVE_UPDATE = "namespace isolation", "live update"


async def check(client: Client) -> tuple[Check, ...]:
    """Check every node. Raises KubeError."""
    nodes, reports, kubevirts = await asyncio.gather(
        client.list(NODES), list_or_empty(client, LAN_NODES), list_or_empty(client, KUBEVIRTS)
    )
    names = sorted(item.metadata.name for item in nodes.items)
    return (check_of(mode_of(kubevirts)), *checks_of(names, reports))


def check_of(mode: Mode) -> Check:
    """Return the finding of who acts. Where KubeVirt may shut machines down for an edit, it is a warning."""
    found = f"mode {mode.name}: {mode.actors}"
    if not mode.evicts:
        return Check(name=_LIVE_UPDATE, result="ok", found=found)
    remedy = (
        f"Remove Evict from spec.workloadUpdateStrategy.workloadUpdateMethods of KubeVirt {mode.kubevirt}, or move "
        "NICs with `lanloom vm move` before a machine is edited."
    )
    return Check(name=_LIVE_UPDATE, result="warning", found=found, remedy=remedy)


def checks_of(nodes: Iterable[str], reports: Iterable[LANNode]) -> tuple[Check, ...]:
    """Return a finding for each message, with the nodes that it is about."""
    by_name = {item.metadata.name: item for item in reports}
    said: dict[tuple[bool, str], list[str]] = {}
    unknown = []
    for node in nodes:
        found = find(by_name[node].status.conditions, NAMESPACE_ISOLATION) if node in by_name else None
        if found is None:
            unknown.append(node)
        else:
            said.setdefault((found.status == "False", found.message), []).append(node)
    checks = [
        _finding(wrong, message, on)
        for (wrong, message), on in sorted(said.items(), key=lambda item: item[0])
    ]
    if unknown:
        text = f"not known on {listed(unknown)}: its agent reads no configuration of Multus (--cni-config)"
        checks.append(Check(name=_NAME, result="ok", found=text))
    return tuple(checks)


def _finding(wrong: bool, message: str, nodes: list[str]) -> Check:
    text = f"{listed(nodes)}: {message}"
    if not wrong:
        return Check(name=_NAME, result="ok", found=text)
    finding, _, remedy = message.rpartition("; ")
    return Check(
        name=_NAME,
        result="warning",
        found=f"{listed(nodes)}: {finding}",
        remedy=f"{remedy[:1].upper()}{remedy[1:]}.",
    )
