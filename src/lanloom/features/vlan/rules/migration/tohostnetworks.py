"""Move node addresses from NADs to Harvester's HostNetworkConfigs so that a crash loses none (`hostnetworks`: back).

Harvester's webhook asks more of a HostNetworkConfig than Lanloom does of a NAD. So what it would refuse is found before
a NAD gives its addresses up.
"""

from collections.abc import Iterator

from msgspec import Struct

from lanloom.api import names
from lanloom.api.dualstack import parse_node_addresses
from lanloom.api.harvester import HOST_NETWORK_CONFIGS, VlanStatus
from lanloom.api.l3 import AnnotationError
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.features.vlan.rules.migration.hostnetworks import (
    HostNetwork,
    Move,
    asked_of,
    ended,
    has_addresses,
    moves,
    moving,
    vlan_of,
)
from lanloom.features.vlan.rules.migration.plans import Change, Item, Snapshot, Wait, annotate
from lanloom.features.vlan.rules.report.status import READY
from lanloom.text import listed

_ADDRESSES = (names.L3_CONNECTIVITY, names.MODE, names.NODE_IP_MAP)
_ROUTING = {names.GATEWAY: "a gateway", names.ROUTES: "routes", names.DNS: "DNS servers"}


class Kept(Struct, frozen=True):
    """A NAD whose addresses no HostNetworkConfig can have, and the reason."""

    key: Key
    reason: str


def to_host_network(now: Snapshot, move: Move) -> Iterator[Item]:
    """Yield what is left until a HostNetworkConfig has the addresses of a NAD."""
    nad = move.nad
    if nad is None:
        return
    if move.config is None and (reason := obstacle(now, move)):
        if moving(nad) is not None:
            back = asked_of(now, move) | {names.HOST_NETWORK: None}
            yield annotate(NADS, move.key, f"takes its node addresses back: {reason}", back)
        return
    if has_addresses(nad) or moving(nad) is None:
        if move.config is None:
            yield from _reports(now, move)
        given_up: dict[str, str | None] = dict.fromkeys(_ADDRESSES)
        what = "gives up its node addresses, for some seconds"
        yield annotate(NADS, move.key, what, given_up | {names.HOST_NETWORK: move.wanted.text})
    if move.config is None:
        if has_addresses(nad) or _holders(now, move):
            yield Wait(until=f"the nodes have released VLAN {move.vid} of {move.cluster_network}")
        yield _created(move)
    yield ended(move.key)


def _created(move: Move) -> Change:
    ips = {"ips": move.wanted.ips} if move.wanted.mode == "static" else {}
    spec = {
        "clusterNetwork": move.cluster_network,
        "vlanID": move.vid,
        "mode": move.wanted.mode,
        "description": f"NAD {move.key}",
        **ips,
    }
    return Change(
        verb="create",
        resource=HOST_NETWORK_CONFIGS,
        key=Key("", move.wanted.name),
        what=f"takes the place of the node addresses of NAD {move.key}",
        body={"metadata": {"name": move.wanted.name}, "spec": spec},
    )


def _holders(now: Snapshot, move: Move) -> bool:
    reports = (item.status for item in now.reports if item.status.cluster_network == move.cluster_network)
    return any(item.vlan_id == move.vid for report in reports for item in report.interfaces)


def _reports(now: Snapshot, move: Move) -> Iterator[Item]:
    """Yield the wait for VlanStatuses: Harvester's webhook takes nothing on an uplink that is not ready."""
    name = move.cluster_network
    statuses = [item for _, item in now.others if isinstance(item, VlanStatus)]
    mine = [item for item in statuses if item.metadata.labels.get(names.CLUSTER_NETWORK_LABEL) == name]
    late = [item.metadata.name for item in mine if not _is_ready(item)]
    if name != names.MGMT and (late or not mine):
        titles = f" {listed(sorted(late))}" if late else ""
        yield Wait(until=f"the VlanStatus{titles} of {name} says that the uplink is ready")


def _is_ready(status: VlanStatus) -> bool:
    return not any(item.type == READY and item.status == "False" for item in status.status.conditions)


def obstacle(now: Snapshot, move: Move) -> str:
    """Return the reason for which Harvester's webhook would refuse the HostNetworkConfig; empty for none.

    (validateHostNetworkConfig and IsHostNetworkIntfNameValid of its network controller.)
    """
    link = f"{names.bridge_name(move.cluster_network)}.{move.vid}"
    if len(link) > names.LINK_NAME_MAX:
        return f"Harvester's name of its link, {link}, is longer than {names.LINK_NAME_MAX} characters"
    for config in now.host_networks:
        same = (config.spec.cluster_network, config.spec.vlanID) == (move.cluster_network, move.vid)
        if same or config.metadata.name == move.wanted.name:
            return f"the HostNetworkConfig {config.metadata.name} exists"
    if move.wanted.mode != "static":
        return ""
    ips = move.wanted.ips
    if missing := sorted({node.metadata.name for node in now.nodes} - ips.keys()):
        return f"it has no address for {listed(missing)}, and Harvester asks for one for each node of the cluster"
    return ""


def addresses_to_move(now: Snapshot) -> tuple[Move, ...]:
    """Return a move for each NAD whose node addresses a HostNetworkConfig can have."""
    return tuple(move for move in _asked(now) if isinstance(move, Move))


def addresses_kept(now: Snapshot) -> tuple[Kept, ...]:
    """Return the NADs whose node addresses none can have."""
    return tuple(kept for kept in _asked(now) if isinstance(kept, Kept))


def _asked(now: Snapshot) -> Iterator[Move | Kept]:
    """Yield what becomes of each NAD with node addresses; of two that want one name, the first has it."""
    taken: set[str] = set()
    begun = {move.key: move for move in moves(now, "")}
    for nad in sorted(now.nads, key=lambda item: item.metadata.key):
        key = nad.metadata.key
        if not has_addresses(nad) or nad.metadata.is_deleting:
            continue
        move = _move_of(nad)
        if isinstance(move, Kept):
            yield move
            continue
        config = begun[key].config if key in begun else None
        if config is None and (reason := obstacle(now, move)):
            yield Kept(key, reason)
        elif move.wanted.name in taken:
            yield Kept(key, f"another NAD is called {move.wanted.name}, too")
        else:
            taken.add(move.wanted.name)
            yield Move(
                cluster_network=move.cluster_network,
                vid=move.vid,
                wanted=move.wanted,
                key=key,
                config=config,
                nad=nad,
            )


def _move_of(nad: NetworkAttachmentDefinition) -> Move | Kept:
    key, annotations = nad.metadata.key, nad.metadata.annotations
    vlan, mode = vlan_of(nad), annotations.get(names.MODE, "")
    if vlan is None or mode not in ("static", "dhcp"):
        return Kept(
            key, f"its mode is {mode or 'missing'}" if vlan is not None else "it is on no single VLAN"
        )
    if more := [title for name, title in _ROUTING.items() if annotations.get(name)]:
        return Kept(key, f"it has {listed(more)}")
    ips: dict[str, str] = {}
    try:
        if mode == "static":
            ips, six = parse_node_addresses(names.NODE_IP_MAP, annotations.get(names.NODE_IP_MAP))
            if six:
                return Kept(key, "it has IPv6 addresses")
    except AnnotationError as error:
        return Kept(key, str(error))
    known = moving(nad)
    wanted = HostNetwork(name=known.name if known is not None else nad.metadata.name, mode=mode, ips=ips)
    return Move(cluster_network=vlan[0], vid=vlan[1], wanted=wanted, key=key, nad=nad)
