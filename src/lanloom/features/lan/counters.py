"""What passed the spokes of a LAN, as its nodes' agents count it, read on request.

No object has these counters: a write a second for each spoke would be too much for an API server. They are read through
the API server (`pods/proxy`) with the reader's own credentials: the reader's rights decide, and Lanloom needs no way to
nodes.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.core import PODS, Pod
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.cli.query import Field, Query
from lanloom.features.lan.views import LanView, read_view
from lanloom.kube.errors import Forbidden, KubeError
from lanloom.kube.ports import PodReader, Reader
from lanloom.kube.scoped import Scoped

AGENTS = "app.kubernetes.io/name=lanloom-lan"
"""The pods of the agents of LANs."""

PORT = "prometheus.io/port"
"""The annotation of a pod that names the port of its metrics."""

MOST_NODES, AT_ONCE = 32, 8
"""Nodes whose agents are asked, and how many of them at a time."""

NO_AGENT = "no agent of LANs runs there as a pod"


class SpokeCounters(Struct, frozen=True, kw_only=True, rename="camel"):
    """What passed a spoke on a node since its port was made; sent by what is attached to it, and received by that.

    `refused` are frames that options of the spoke dropped, by option.
    """

    spoke: str
    node: str
    mode: str = ""
    bytes_sent: int = 0
    bytes_received: int = 0
    frames_sent: int = 0
    frames_received: int = 0
    dropped_sent: int = 0
    dropped_received: int = 0
    refused: dict[str, int] = {}


class Silent(Struct, frozen=True):
    """A node whose agent reported nothing, and why."""

    node: str
    message: str


class LanCounters(Struct, frozen=True, kw_only=True, rename="camel"):
    """The counters of a LAN. `missing` is the right that its reader lacks; `left_out` nodes were not asked."""

    lan: str
    spokes: tuple[SpokeCounters, ...] = ()
    silent: tuple[Silent, ...] = ()
    left_out: int = 0
    missing: str = ""

    def remarks(self) -> tuple[str, ...]:
        """Return what a reader has to know of these counters, in sentences."""
        if self.missing:
            return (
                f"Agents are asked with your own rights. You may not {self.missing} in {LANLOOM_NAMESPACE}.",
            )
        more = f"{self.left_out} more nodes were not asked: see Prometheus." if self.left_out else ""
        return (*(f"{item.node}: {item.message}" for item in self.silent), *((more,) if more else ()))


async def read_counters(client: Reader, name: str, namespace: str = "") -> LanCounters:
    """Read the counters of a LAN. Raises KubeError, and Denied for a name that is no LAN's, or several's."""
    view = await read_view(client, name, namespace)
    nodes = nodes_of(view)
    asked = nodes[:MOST_NODES]
    found = LanCounters(lan=view.title, left_out=len(nodes) - len(asked))
    if not asked:
        return found
    asker = client.whole if isinstance(client, Scoped) else client
    assert isinstance(asker, PodReader)
    try:
        pods = (await client.list(PODS, LANLOOM_NAMESPACE, labels=AGENTS)).readable
    except Forbidden:
        return LanCounters(lan=view.title, missing="list pods")
    return await _ask_all(asker, found, asked, agents_of(pods))


def nodes_of(view: LanView) -> tuple[str, ...]:
    """Return the nodes that have spokes with something attached, each once; others count nothing."""
    return tuple(sorted({node for spoke in view.spokes for node in spoke.node.split(", ") if node}))


def agents_of(pods: Iterable[Pod]) -> Mapping[str, str]:
    """Return the agents' pods by node, as `pods/proxy` names them: with the port of the metrics, if they tell it."""
    found: dict[str, str] = {}
    for pod in pods:
        if pod.spec.node_name and not pod.has_ended and not pod.metadata.is_deleting:
            port = pod.metadata.annotations.get(PORT, "")
            found[pod.spec.node_name] = pod.metadata.name + (f":{port}" if port.isdecimal() else "")
    return found


async def _ask_all(
    asker: PodReader, found: LanCounters, nodes: Sequence[str], agents: Mapping[str, str]
) -> LanCounters:
    room, denied = asyncio.Semaphore(AT_ONCE), asyncio.Event()

    async def ask(node: str) -> list[SpokeCounters] | Silent:
        if node not in agents:
            return Silent(node, NO_AGENT)
        async with room:
            if denied.is_set():
                return []
            try:
                text = await asker.ask_pod(LANLOOM_NAMESPACE, agents[node], "metrics")
                return counters_in(text, found.lan, node)
            except Forbidden:
                denied.set()
                return []
            except (KubeError, ValueError, OverflowError) as error:
                return Silent(node, f"its agent tells nothing: {error}")

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(node)) for node in nodes]
    if denied.is_set():
        return LanCounters(lan=found.lan, missing="get pods/proxy")
    answers = [task.result() for task in tasks]
    spokes = [item for answer in answers if not isinstance(answer, Silent) for item in answer]
    return replace(
        found,
        spokes=tuple(sorted(spokes, key=lambda item: (item.spoke, item.node, item.mode))),
        silent=tuple(answer for answer in answers if isinstance(answer, Silent)),
    )


_WAYS = {"in": "sent", "out": "received"}
_COUNTED = {"bytes": "bytes", "frames": "frames", "dropped_frames": "dropped"}
_LINE = re.compile(r"lanloom_agent_lan_spoke_(\w+)_total\{([^{}]*)\} ([0-9.e+]{1,24})")
_LABEL = re.compile(r'(\w+)="([^"\\]*)"')


def counters_in(text: str, lan: str, node: str) -> list[SpokeCounters]:
    """Return the counters of the spokes of a LAN in an agent's metrics. Raises ValueError for what is none."""
    if "\nlanloom_agent_" not in text:
        raise ValueError("its answer is not that of an agent of Lanloom")
    place, _, name = lan.partition("/")
    found: dict[tuple[str, str], dict[str, int]] = {}
    refused: dict[tuple[str, str], dict[str, int]] = {}
    for line in text.splitlines():
        if (match := _LINE.fullmatch(line)) is None:
            continue
        metric, labels, number = match[1], dict(_LABEL.findall(match[2])), int(float(match[3]))
        if (labels.get("namespace"), labels.get("lan")) != (place, name):
            continue
        key = labels.get("spoke", ""), labels.get("mode", "")
        if metric == "refused_frames":
            refused.setdefault(key, {})[labels.get("option", "")] = number
        elif metric in _COUNTED and (way := _WAYS.get(labels.get("direction", ""))):
            found.setdefault(key, {})[f"{_COUNTED[metric]}_{way}"] = number
    return [
        SpokeCounters(spoke=key[0], node=node, mode=key[1], refused=refused.get(key, {}), **numbers)
        for key, numbers in found.items()
    ]


def size(number: int) -> str:
    """Return a number of bytes for people."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.3f} TB"


def _options(refused: dict[str, int]) -> str:
    return ", ".join(f"{option} {number}" for option, number in sorted(refused.items()) if number)


COUNTER_FIELDS: Query[SpokeCounters] = Query(
    (
        Field("spoke", "Spoke", "text", "Spoke", lambda item: item.spoke, whole=True),
        Field("node", "On node", "text", "Node on which it is attached", lambda item: item.node, whole=True),
        Field("mode", "As", "text", "veth for a pod, macvtap for a machine", lambda item: item.mode or None),
        Field("sent", "Sent", "number", "Bytes that its pod sent", lambda item: item.bytes_sent, text=size),
        Field(
            "received",
            "Received",
            "number",
            "Bytes that its pod received",
            lambda item: item.bytes_received,
            text=size,
        ),
        Field("frames-sent", "Frames sent", "number", "Frames sent", lambda item: item.frames_sent),
        Field(
            "frames-received",
            "Frames received",
            "number",
            "Frames received",
            lambda item: item.frames_received,
        ),
        Field(
            "dropped",
            "Dropped",
            "number",
            "Frames dropped at its port, both ways",
            lambda item: item.dropped_sent + item.dropped_received,
        ),
        Field(
            "refused",
            "Refused",
            "text",
            "Frames that its options dropped, by option",
            lambda item: _options(item.refused) or None,
        ),
    ),
    ("spoke", "node", "sent", "received", "frames-sent", "frames-received", "dropped", "refused"),
    ruled=True,
    identity="spoke",
)
"""The fields of counters."""
