"""One cluster network on a node as a value: what the node should carry of it, or carried."""

import hashlib
from collections.abc import Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.bonds import UNTUNED, BondSettings
from lanloom.node.ports import LinkState
from lanloom.node.vlanids import VlanIds


class Interface(Struct, frozen=True, kw_only=True):
    """A VLAN sub-interface that the node should have. `network` is `namespace/name` of the NAD where it is known.

    `table` is the number of its routing table, 0 where it has no gateway. With `pooled`, its static addresses are
    those that a pool gave. With `lacks6`, the network asks for an IPv6 address that the profile does not have, as
    the kernel can't (`kernel.py`).
    """

    vid: int
    name: str
    network: str
    mode: str
    address: str
    uuid: str
    file: str
    content: bytes
    table: int = 0
    pooled: bool = False
    lacks6: bool = False


NOT_WRITTEN = "ProfileNotWritten"
"""The reason of a VLAN whose profile could not be written: what it had before goes on working."""


AWAITING_ADDRESS = "AwaitingAddress"
"""The reason of a node that no pool has given an address: soon one will, or an Event on the NAD tells why not."""


class Problem(Struct, frozen=True, kw_only=True):
    """A reason why a network can't be carried as asked. `vid` is 0 where the VLAN id itself can't be read.

    What the node has for that VLAN (or, without an id, for the whole cluster network) stays as it is if `keep`.
    """

    vid: int
    network: str
    reason: str
    message: str
    mode: str = ""
    keep: bool = False


class NodeNetwork(Struct, frozen=True, kw_only=True):
    """One cluster network on the node. `mtu` in bytes, `miimon` in milliseconds, `tx_queue_length` in packets.

    `tx_queue_length`, `mac` and `settings` of the bond are left as they are where they are None and empty. `problems`
    are those of VM networks, `uplink_problems` those of the VlanConfig; without a `mode` there can't be a bond.
    On a `foreign` network bridge and uplink are made by others, as `mgmt` is by the installer, and nothing but VLAN
    ids is wanted of them. On a `delegated` one another controller puts the ids on the uplink, too. If it `adopts`, the
    links of such a controller become Lanloom's, and the sub-interfaces of `adopted_vlans` (`adoption.py`).
    """

    cluster_network: str
    vlan_config: str
    bridge: str
    bond: str
    nics: tuple[str, ...]
    mode: str
    miimon: int
    mtu: int
    tx_queue_length: int | None = None
    mac: str = ""
    settings: BondSettings = UNTUNED
    foreign: bool = False
    delegated: bool = False
    adopts: bool = False
    adopted_vlans: tuple[int, ...] = ()
    bridge_ids: VlanIds = ()
    uplink_ids: VlanIds = ()
    interfaces: tuple[Interface, ...] = ()
    problems: tuple[Problem, ...] = ()
    uplink_problems: tuple[Problem, ...] = ()

    @property
    def digest(self) -> str:
        """A short hash of everything wanted here: whether a status speaks of the present configuration."""
        wanted = msgspec.to_builtins(replace(self, adopts=False, adopted_vlans=()), builtin_types=(bytes,))
        for item in wanted["interfaces"]:
            del item["pooled"], item["lacks6"]  # words alone depend on them
        return hashlib.sha256(msgspec.msgpack.encode(wanted)).hexdigest()[:16]

    @property
    def uplink_hash(self) -> str:
        """A short hash of the uplink wanted here; empty where others make it."""
        if self.foreign:
            return ""
        # An agent of a version without settings has the same hash as long as no object asks for any.
        settings = () if self.settings == UNTUNED else (self.settings,)
        wanted = (
            self.vlan_config,
            self.nics,
            self.mode,
            self.miimon,
            self.mtu,
            self.tx_queue_length,
            self.mac,
            *settings,
        )
        return hashlib.sha256(msgspec.msgpack.encode(wanted)).hexdigest()[:16]


def kept_ids(network: NodeNetwork) -> frozenset[int] | None:
    """Return the VLAN ids of which nothing may be taken away, because what is wanted of them can't be read.

    None for all.
    """
    kept = {problem.vid for problem in network.problems if problem.keep}
    return None if 0 in kept else frozenset(kept)


def blocked(problems: Iterable[Problem]) -> bool:
    """Return whether the uplink can't be built at all: then there is no bridge of ours for a sub-interface either."""
    return any(problem.keep for problem in problems)


def has_carrier(interface: Interface, observed: LinkState | None) -> bool:
    """Return whether frames can leave by the sub-interface."""
    link = observed.links.get(interface.name) if observed is not None else None
    return link is not None and link.up and link.operstate in ("UP", "UNKNOWN")


def is_down(interface: Interface, observed: LinkState) -> bool:
    """Return whether another program set the sub-interface down: its bridge, with which it goes down and up, is up."""
    link = observed.links.get(interface.name)
    bridge = observed.links.get(link.parent) if link is not None else None
    return link is not None and bridge is not None and bridge.up and not link.up
