"""The facts of a trace, from what the API server says now and, on a node, from its kernel. It changes nothing."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.core import NODES, PODS
from lanloom.api.lan import LAN, LAN_NODES, LANS, LANNode
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, is_name
from lanloom.features.lan.agent.kernel import LanKernel
from lanloom.features.lan.agent.records import LanRecords
from lanloom.features.lan.rules.desired import desired, endpoint
from lanloom.features.lan.rules.flood import peers
from lanloom.features.lan.rules.record import LanRecord
from lanloom.features.lan.trace.facts import (
    End,
    Facts,
    NodeKernel,
    check_ends,
    entry_of,
    is_at,
    named_nads,
    pod_end,
    spoke_end,
)
from lanloom.features.lan.trace.uplink import host_bridge, uplink_end
from lanloom.features.lan.views import choose
from lanloom.kube.lookup import get_or_none, list_or_empty
from lanloom.kube.ports import Reader
from lanloom.node.errors import LinkError, NodeError
from lanloom.node.linkvalues import check_mac
from lanloom.node.ports import Records
from lanloom.refusals import Denied, Malformed
from lanloom.text import listed, quote

UPLINK = "uplink"
"""What names the VLAN that the LAN is joined to as an end, where no spoke is called so."""


class Asked(Struct, frozen=True, kw_only=True):
    """What to trace: a LAN, and a pod, spoke or `uplink` at each end, as they were typed; `size` in bytes, 0 for any.

    `source` is the MAC address that the frame is from, empty for that of the sender's interface.
    """

    lan: str
    sender: str
    receiver: str
    size: int = 0
    source: str = ""


async def read_facts(client: Reader, asked: Asked, *, now: float) -> Facts:
    """Read what a trace is made from. Raises KubeError, Denied and Malformed."""
    lans = (await client.list(LANS)).items
    reports, nodes = await asyncio.gather(list_or_empty(client, LAN_NODES), list_or_empty(client, NODES))
    lan = _chosen(asked.lan, lans)
    sender, receiver = [
        await _end(client, text, option, lan, lans, reports)
        for text, option in ((asked.sender, "--from"), (asked.receiver, "--to"))
    ]
    check_ends(sender, receiver)
    return Facts(
        lan=lan,
        sender=sender,
        receiver=receiver,
        reports={item.metadata.name: item for item in reports},
        nodes={item.metadata.name: item for item in nodes},
        now=now,
        size=asked.size,
        source=_source(asked.source),
    )


def _source(text: str) -> str:
    """Return the address in the kernel's form. Raises Malformed."""
    mac = text.lower()
    try:
        check_mac("--source", mac)
    except LinkError:
        raise Malformed(
            f"--source is {quote(text)}; give the MAC address of an interface, e.g. 02:00:00:00:00:01"
        ) from None
    return mac


def _chosen(name: str, lans: Iterable[LAN]) -> LAN:
    return choose(name, {str(lan.metadata.key): lan for lan in lans})


async def _end(
    client: Reader, text: str, option: str, lan: LAN, lans: Iterable[LAN], reports: Iterable[LANNode]
) -> End:
    if text in lan.spec.spokes:
        return spoke_end(text, lan, reports)
    if text == UPLINK:
        return uplink_end(lan, {report.metadata.name: report for report in reports})
    namespace, slash, name = text.rpartition("/")
    key = Key(namespace if slash else lan.metadata.namespace, name)
    if not (is_name(key.namespace) and is_name(key.name)):
        raise Malformed(f"{option} is {quote(text)}; give a pod as NAMESPACE/NAME, {_others(lan)}")
    pod = await get_or_none(client, PODS, key)
    if pod is None:
        raise Denied(
            f"{option}: there is no Pod {key}, and LAN {lan.metadata.key} has no such spoke; give a pod as "
            f"NAMESPACE/NAME, {_others(lan)}"
        )
    nads = [await get_or_none(client, NADS, key) for key in named_nads(pod)]
    return pod_end(pod, lan, lans, [nad for nad in nads if nad is not None])


def _others(lan: LAN) -> str:
    """Return what may be an end in addition to a pod, for a message."""
    uplink = f", or {UPLINK} for its VLAN" if lan.spec.uplink is not None else ""
    return f"or a spoke of the LAN: {listed(lan.spec.spokes) or 'it has none'}{uplink}"


async def read_end_names(client: Reader, name: str) -> list[str]:
    """Return the spokes of a LAN, and the pods of its namespace at them; none if there is no such LAN.

    Raises KubeError.
    """
    try:
        lan = _chosen(name, await list_or_empty(client, LANS))
    except Denied:
        return []
    pods = await list_or_empty(client, PODS, lan.metadata.namespace)
    uplinks = [UPLINK] if lan.spec.uplink is not None else []
    return [*lan.spec.spokes, *uplinks, *sorted(str(pod.metadata.key) for pod in pods if is_at(pod, lan))]


async def with_kernel(facts: Facts, node: str, kernel: LanKernel, records: Records, state: Path) -> Facts:
    """Return the facts with the kernel of `node`, which is this machine. `records` are those in the directory `state`.

    Raises Denied if it is on no side, or unreadable, also without the record that says what should be there.
    """
    sides = [end.node for end in (facts.sender, facts.receiver) if end.node]
    if node not in sides:
        there = f"the frame passes {listed(dict.fromkeys(sides))}" if sides else "the frame passes no node"
        raise Denied(f"--node is {quote(node)}, but {there}; run this command on such a node")
    try:
        found = await _read_kernel(facts, node, kernel, await _record(facts, node, records, state))
    except NodeError as error:
        raise Denied(
            f"can't read the LAN in the kernel of {node}: {error}; run this as root, or in the pod of its agent"
        ) from None
    finally:
        await kernel.close()
    return replace(facts, kernels={node: found})


async def _record(facts: Facts, node: str, records: Records, state: Path) -> LanRecord:
    known = LanRecords(records)
    await known.load()
    if (record := known.by_uid.get(facts.lan.metadata.uid)) is not None:
        return record
    title = f"LAN {facts.lan.metadata.key}"
    if facts.entry(node) is None:
        raise Denied(
            f"no record of {title} in {state}: {node} reports that it does not carry the LAN, so there is nothing to "
            "read; leave out --live, or give the agent's own --state if that is another directory"
        )
    raise Denied(
        f"no record of {title} in {state}, and {node} reports that it carries the LAN: is --state right? Give the "
        "--state of the agent of LANs on this node"
    )


async def _read_kernel(facts: Facts, node: str, kernel: LanKernel, record: LanRecord) -> NodeKernel:
    underlays = await kernel.underlays((record.device,)) if record.device else {}
    own = endpoint(record, underlays.get(record.device))
    multicast = record.replication == "multicast"
    around = peers(
        record.uid, record.vni, record.port, node, own.address, facts.live_reports, multicast=multicast
    )
    entry = entry_of(facts.reports.get(node), facts.lan)
    host = host_bridge(facts.lan, uplink=entry is not None and entry.uplink)
    wanted = desired(record, own, around, node, facts.now, host=host)
    return NodeKernel(wanted=wanted, seen=await kernel.observe(wanted), underlay=underlays.get(record.device))
