"""Where spokes of LANs are attached: by the reports of nodes, or by the pods that a reader may see."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, get_args

from lanloom.api.core import PODS, Pod
from lanloom.api.lan import LAN, LANNode, Mode, nad_name
from lanloom.api.meta import Key
from lanloom.api.multus import NETWORK_STATUS, attachments
from lanloom.kube.errors import Forbidden
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Reader


class Attached(NamedTuple):
    """The nodes on which a spoke is attached, its pods there, and its mode; two nodes while a machine migrates."""

    node: str = ""
    pod: str = ""
    mode: str = ""

    def and_at(self, node: str, pod: str, mode: str) -> "Attached":
        """Return the same with one node and pod more."""
        nodes, pods = (", ".join(filter(None, pair)) for pair in ((self.node, node), (self.pod, pod)))
        return Attached(nodes, pods, mode)


Places = Mapping[tuple[str, str], Attached]
"""By a LAN's uid and a spoke."""


def places_of_reports(reports: Iterable[LANNode]) -> Places:
    """Return where spokes are attached, as nodes report it."""
    found: dict[tuple[str, str], Attached] = {}
    for report in sorted(reports, key=lambda item: item.metadata.name):
        for entry in report.status.lans:
            for spoke in entry.spokes:
                at = found.get((entry.uid, spoke.name), Attached())
                found[entry.uid, spoke.name] = at.and_at(report.metadata.name, spoke.pod, spoke.mode)
    return found


async def read_own_places(client: Reader, lans: Iterable[LAN], namespace: str) -> Places:
    """Return where spokes are attached, from the pods that the reader may see. Raises KubeError."""
    try:
        return places_of_pods(lans, await list_or_empty(client, PODS, namespace))
    except Forbidden:
        return {}


def places_of_pods(lans: Iterable[LAN], pods: Iterable[Pod]) -> Places:
    """Return where spokes are attached, as far as these pods tell."""
    nads: dict[Key, tuple[tuple[str, str], Mode]] = {}
    for lan in lans:
        for spoke in lan.spec.spokes:
            for mode in get_args(Mode):
                key = Key(lan.metadata.namespace, nad_name(spoke, mode))
                nads[key] = ((lan.metadata.uid, spoke), mode)
    found: dict[tuple[str, str], Attached] = {}
    for pod in sorted(pods, key=lambda item: item.metadata.key):
        for nad in () if pod.has_ended else _nads(pod):
            if nad in nads:
                place, mode = nads[nad]
                at = found.get(place, Attached())
                found[place] = at.and_at(pod.spec.node_name, str(pod.metadata.key), mode)
    return found


def _nads(pod: Pod) -> Iterator[Key]:
    try:
        names = attachments(pod.metadata.annotations.get(NETWORK_STATUS, ""))
    except ValueError:
        return
    for item in names:
        yield Key(item.namespace or pod.metadata.namespace, item.name)
