"""What must hold of LANs: at every write of the API server and of a node's kernel, that no pod loses what it uses.

Of NADs the rules are those of isolated networks (`dummy_judge`). On nodes a pod has its interface from the answer to
ADD until DEL begins: no step of an agent may take it away, put it elsewhere, or give the spoke to another pod too. Who
was cut off by a user's hands is to be repaired, and counts again when that is done. What a user removed by force may
go at any time. Two LANs that were let in at once although both claim a namespace are for their users to settle.

A process knows no more than what it has read, so its decisions are judged by that. A LAN goes after a manager has
read the reports of all nodes, and only if no node that it has to wait for reported the LAN then. A spoke takes one user
on a node, whatever it is attached as. An agent gives it to no user while it knows another one on another node; the pods
of one machine, which migrates, are one user. Two that start at once, before either node got an event, are both let in.

A VLAN is joined by one node at a time, to one LAN: two nodes that let frames through may be a loop. So it is for LANs
that were removed by force, too, and those that were made in their place. What has the same VNI is joined to one VLAN at
a time: two would be one.
"""

import math
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import msgspec
from msgspec import Struct

from lanloom.api.lan import FINALIZER, FORCE_DELETE, LAN, LAN_NODES, LANS, UID_LABEL, LANNode
from lanloom.api.meta import Key
from lanloom.features.lan.agent.ports import Device
from lanloom.features.lan.rules.hostbridge import HostStep, far_name
from lanloom.features.lan.rules.linksteps import LanStep
from lanloom.features.lan.rules.removal import NODE_SECONDS
from lanloom.kube.ports import Client
from lanloom.node.marks import owner_of
from lanloom_embedded.engine.storage import Change
from tests.fakes.lanworld import LanWorld, Space
from tests.harness.interceptor import Interceptor, Request
from tests.sim.dummy_judge import Verifier

RETURN_SECONDS = 120.0
"""How long a manager may not know that a node which it has given up is back: so long may a watch be silent, and then be
begun again."""

Known = frozenset[tuple[str, str]]
"""Users of a spoke elsewhere that were reported to a node: a node, and a pod as `namespace/name`."""


class Use(Struct, frozen=True, kw_only=True):
    """A pod's interface at a spoke, once ADD succeeded; `ns` and `uid` are those of the LAN that made the NAD.

    `tap` is the path of the device that kubelet gave a machine; `machine` the uid of the machine whose pod it is.
    """

    node: str
    pod: Key
    nad: Key
    ns: str
    uid: str
    device: Device
    netns: str
    interface: str
    tap: str = ""
    machine: str = ""

    def is_of(self, other: "Use") -> bool:
        """Whether both are of one pod, or of the pods of one machine."""
        return self.pod == other.pod or bool(self.machine and self.machine == other.machine)

    def __str__(self) -> str:
        return f"{self.interface} of {self.netns} at {self.device.id} on {self.node}"


class LanVerifier(Verifier):
    """Looks at every write. `kernels` are the kernels of the nodes that are on."""

    def __init__(self, note: Callable[[str], None], now: Callable[[], float]) -> None:
        super().__init__(note, UID_LABEL)
        self._now = now
        self.kernels: dict[str, LanWorld] = {}
        self.away: dict[str, float] = {}
        self._returned: dict[str, float] = {}
        self._read: dict[str, float] = {}
        self._released: dict[tuple[Key, str], float] = {}
        self.lans: dict[Key, LAN] = {}
        self._owners: dict[Key, str] = {}
        self._reported: dict[str, dict[str, float]] = {}
        self.contested: set[Key] = set()
        self._keys: dict[str, Key] = {}
        self._ends: dict[str, LAN] = {}
        self._namespaces: dict[str, str] = {}
        self.forced: set[str] = set()
        self._excused: set[Key] = set()
        self._uses: dict[tuple[str, str], Use] = {}
        self._broken: set[tuple[str, str]] = set()
        self.attached = 0

    def uses(self, node: str = "") -> tuple[Use, ...]:
        """The interfaces of pods, on one node or on all."""
        return tuple(use for use in self._uses.values() if node in ("", use.node))

    def see(self, change: Change) -> None:
        """One change of an object."""
        super().see(change)
        if change.resource == (LANS.group, LANS.plural):
            self._take_lan(change)
        elif change.resource == (LAN_NODES.group, LAN_NODES.plural):
            report = msgspec.convert(change.after.raw(), LANNode) if change.after is not None else LANNode()
            known = self._reported.get(change.key.name, {})
            self._reported[change.key.name] = {
                entry.uid: known.get(entry.uid, self._now()) for entry in report.status.lans
            }

    def _take_lan(self, change: Change) -> None:
        old = self.lans.pop(change.key, None)
        new = msgspec.convert(change.after.raw(), LAN) if change.after is not None else None
        kept = new is not None and FINALIZER in new.metadata.finalizers
        if old is not None and FINALIZER in old.metadata.finalizers and not kept:
            self._let_go(old)
        if new is None:
            self._note(f"  LAN {change.key} is gone")
            return
        self._namespaces[new.metadata.uid] = new.spec.ns
        self._ends[far_name(new.metadata.uid)] = new
        self._keys[new.metadata.uid] = change.key
        claimants = {key for key, other in self.lans.items() if _same_claim(other, new)}
        self.contested |= {change.key, *claimants} if claimants else set()
        self.lans[change.key] = new
        if new.metadata.annotations.get(FORCE_DELETE) == "true":
            self.forced.add(new.metadata.uid)

    def _let_go(self, lan: LAN) -> None:
        """A LAN has the finalizer no more: nothing keeps it."""
        key, uid = lan.metadata.key, lan.metadata.uid
        if uid in self.forced:
            return
        read = self._released.get((key, lan.metadata.resource_version))
        if read is None:
            self._complain(f"LAN {key} is gone although no manager looked at the nodes and let it go")
            return
        for node, uids in self._reported.items():
            if uids.get(uid, read) < read and not self._is_given_up(node, read):
                self._complain(f"LAN {key} is gone while {node} reports that it carries it")
        for use in self._uses.values():
            if use.uid == uid and ("pods", use.pod) in self._references:
                self._complain(f"LAN {key} is gone while {use} uses it")

    def _is_given_up(self, node: str, read: float) -> bool:
        """Whether a node was not waited for any more when it was read that it carries a LAN."""
        away = self.away.get(node)
        if away is not None:
            return int(read - away) + 1 >= NODE_SECONDS  # times of conditions have no fractions
        return read - self._returned.get(node, -math.inf) < RETURN_SECONDS

    def goes(self, node: str) -> None:
        """A node is not Ready any more."""
        self.away[node] = self._now()

    def returns(self, node: str) -> None:
        """A node is Ready."""
        if self._now() - self.away.pop(node, self._now()) >= NODE_SECONDS:
            self._returned[node] = self._now()

    def reads(self, manager: str) -> None:
        """A manager begins to read what the nodes report."""
        self._read[manager] = self._now()

    def releases(self, manager: str, lan: Key, version: str) -> None:
        """A manager asks for a LAN to go, in the version that it has seen, by what it has read of the nodes."""
        if (read := self._read.get(manager)) is not None:
            known = self._released.get((lan, version), read)
            self._released[lan, version] = min(read, known)

    def _take_nad(self, change: Change) -> None:
        before = self._owners.get(change.key, "")
        if before in self.forced:
            self._excused.add(change.key)
        super()._take_nad(change)
        if change.after is not None:
            self._owners[change.key] = change.after.labels.get(UID_LABEL, "")
        elif not self._is_excused(change.key):
            for use in self._uses.values():
                if use.nad == change.key and ("pods", use.pod) in self._references:
                    self._complain(f"NAD {change.key} was deleted from under {use}")

    def _is_excused(self, nad: Key) -> bool:
        return nad in self._excused

    def maker_of(self, nad: Key) -> str:
        """The uid of the LAN that a NAD was made for."""
        return self._owners.get(nad, "")

    def namespace_of(self, uid: str) -> str:
        """The namespace that the LAN of a uid has on nodes; it never changes."""
        return self._namespaces.get(uid, "")

    def lans_in(self, space: Space) -> set[Key]:
        """The LANs for which a namespace of a node was made, by its marks."""
        return {self._keys[uid] for uid in _marks(space) if uid in self._keys}

    def begins(self, use: Use, known: Known) -> None:
        """ADD was answered: the pod has its interface. `known` are those reported to its node all the time."""
        for other in self._uses.values():
            if other.device.spoke != use.device.spoke or other.is_of(use):
                continue
            told = (other.node, f"{other.pod.namespace}/{other.pod.name}") in known
            alive = ("pods", other.pod) in self._references
            if other.node == use.node or (told and alive):
                self._complain(f"{use} was given although {other} has the spoke")
        place = (use.node, use.device.id)
        self._uses[place] = use
        self.attached += 1
        if wrong := self._wrong(use):
            self._complain(f"{use} is not there, although ADD succeeded: {wrong}")

    def ends(self, node: str, device: Device, netns: str) -> None:
        """DEL begins, or the machine lost its power."""
        found = self._uses.get((node, device.id))
        if found is not None and found.netns == netns:
            del self._uses[node, device.id]

    def power_off(self, node: str) -> None:
        """All that is in a node's kernel is lost."""
        self._uses = {place: use for place, use in self._uses.items() if use.node != node}
        self._broken = {place for place in self._broken if place[0] != node}

    def damage(self, node: str, ns: str) -> None:
        """A user's hands broke something of a LAN on a node."""
        self._broken.add((node, ns))

    def step(self, node: str, step: LanStep) -> None:
        """An agent changed its kernel."""
        if isinstance(step, HostStep):
            self._look_for_loops()
        for use in self.uses(node):
            wrong, place = self._wrong(use), (node, use.ns)
            if wrong and place not in self._broken:
                self._complain(f"{use} is lost by {step.title}: {wrong}")
        self._mend(node)

    def uplink_links(self, uid: str) -> list[str]:
        """The nodes that join the LAN of a uid to a VLAN."""
        name = far_name(uid)
        return [
            node
            for node, world in self.kernels.items()
            for end in world.uplink_links()
            if end.link.name == name
        ]

    def _look_for_loops(self) -> None:
        uplink_links = [
            (node, self._ends[end.link.name].spec, (end.place, end.vlan))
            for node, world in self.kernels.items()
            for end in world.uplink_links()
        ]
        for (node, lan, (place, vlan)), (other, another, there) in combinations(uplink_links, 2):
            if (place, vlan) == there:
                self._complain(f"a loop: {node} and {other} join a LAN to VLAN {vlan} of {place}")
            elif (lan.vni, lan.vxlan_port) == (another.vni, another.vxlan_port):
                self._complain(f"VLANs {vlan} and {there[1]} are one: {node} and {other} join VNI {lan.vni}")

    def _mend(self, node: str) -> None:
        bad = {(node, use.ns) for use in self.uses(node) if self._wrong(use)}
        self._broken = {place for place in self._broken if place[0] != node or place in bad}

    def wrongs(self) -> Iterator[str]:
        """What pods lack now."""
        for use in self._uses.values():
            if wrong := self._wrong(use):
                yield f"{use}: {wrong}"
            lan = self.lans.get(self._keys[use.uid])
            if (
                lan is not None
                and lan.metadata.key not in self.contested
                and lan.metadata.uid not in _marks(self.kernels[use.node].names[use.ns])
            ):
                yield f"{use}: it is at a LAN that is gone"

    def _wrong(self, use: Use) -> str:
        """What is missing of an interface, empty if nothing is."""
        world = self.kernels[use.node]
        space = world.names.get(use.ns)
        if space is None:
            return f"there is no namespace {use.ns}"
        key, found = self._keys[use.uid], self.lans_in(space)
        if key not in found and not (key in self.contested and found & self.contested):
            return f"the namespace {use.ns} is not that LAN's"
        port = space.links.get(use.device.id)
        if port is None:
            return "its port is not there"
        bridge = next((link for link in space.links.values() if link.kind == "bridge"), None)
        if bridge is None or port.master != bridge.index:
            return "its port is not one of the bridge"
        ends = [end for end in world.ends if end.place == use.netns and end.link.name == use.interface]
        if len(ends) != 1 or ends[0].space != id(space):
            return "the far end is not there"
        near = space.links.get(f"{use.device.spoke}M1") if use.tap else port
        if near is None or ends[0].lower != near.index:
            return "the far end is another port's"
        if use.tap and use.tap != f"/dev/tap{ends[0].link.index}":
            return f"its device is no longer {use.tap}"
        return ""


def _same_claim(lan: LAN, other: LAN) -> bool:
    """Whether two LANs claim a namespace, or the VLAN of an uplink."""
    uplink = lan.spec.uplink
    return lan.spec.ns == other.spec.ns or (uplink is not None and uplink == other.spec.uplink)


def _marks(space: Space) -> set[str]:
    return {owner_of(link.alias) for link in space.links.values()} - {""}


class JudgedClient(Interceptor):
    """A manager's client. The witness learns when it reads the reports of nodes, and when it lets a LAN go."""

    def __init__(self, inner: Client, witness: LanVerifier, manager: str) -> None:
        super().__init__(inner)
        self._witness = witness
        self._manager = manager

    async def send(self, request: Request) -> Any:
        if request.verb == "list" and request.resource is LAN_NODES:
            self._witness.reads(self._manager)
        if request.merges and request.resource is LANS:
            meta = request.body.get("metadata", {})
            if FINALIZER not in meta.get("finalizers", (FINALIZER,)):
                key = Key(request.namespace, request.name)
                self._witness.releases(self._manager, key, meta["resourceVersion"])
        return await super().send(request)
