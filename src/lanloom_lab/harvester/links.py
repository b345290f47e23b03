"""The links of a node as Harvester's agent reads and changes them, and the lab's nodes as such.

Its agent speaks netlink (pkg/network/iface); on a node of the lab, `ip` and `bridge` do the same.
"""

import json
from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from lanloom.node.ports import Link
from lanloom.node.vlanids import VlanIds, merge
from lanloom_lab.errors import LabError
from lanloom_lab.harvester.wrangler import NotYetError
from lanloom_lab.workloads.hosts import Hosts


class AddBond(Struct, frozen=True):
    """Make a bond and set it up; 0 and -1 leave the kernel's own MTU and queue."""

    name: str
    mode: str
    miimon: int
    mtu: int
    queue: int

    @property
    def script(self) -> str:
        """Return the commands."""
        more = f" mtu {self.mtu}" if self.mtu else ""
        more += f" txqueuelen {self.queue}" if self.queue > 0 else ""
        return (
            f"ip link add {self.name}{more} type bond mode {self.mode} miimon {self.miimon}\n"
            f"ip link set {self.name} up\n"
        )


class AddBridge(Struct, frozen=True):
    """Make a bridge with VLAN filtering, promiscuous and up; one that is there gets only what it lacks."""

    name: str

    @property
    def script(self) -> str:
        """Return the commands."""
        return (
            f"ip link show {self.name} >/dev/null 2>&1 || ip link add {self.name} type bridge\n"
            f"ip link set {self.name} type bridge vlan_filtering 1\nip link set {self.name} promisc on up\n"
        )


class SetMaster(Struct, frozen=True):
    """Put a link under another; a bond's NIC is down for it, and up afterwards. Empty: release it."""

    name: str
    master: str
    bonding: bool = False

    @property
    def script(self) -> str:
        """Return the commands."""
        if not self.master:
            return f"ip link set {self.name} nomaster\nip link set {self.name} up\n"
        down = f"ip link set {self.name} down\n" if self.bonding else ""
        return f"{down}ip link set {self.name} master {self.master}\nip link set {self.name} up\n"


class Delete(Struct, frozen=True):
    """Delete a link."""

    name: str

    @property
    def script(self) -> str:
        """Return the commands."""
        return f"ip link delete {self.name}\n"


class SetVlan(Struct, frozen=True):
    """Let a bridge's port, or the bridge itself, carry a VLAN id, or no longer."""

    name: str
    vid: int
    on: bool
    itself: bool = False

    @property
    def script(self) -> str:
        """Return the commands."""
        verb, whose = "add" if self.on else "delete", " self" if self.itself else ""
        return f"bridge vlan {verb} vid {self.vid} dev {self.name}{whose}\n"


class AddVlanLink(Struct, frozen=True):
    """Make a VLAN link on a bridge, and set it up."""

    name: str
    parent: str
    vid: int

    @property
    def script(self) -> str:
        """Return the commands."""
        made = f"ip link add link {self.parent} name {self.name} type vlan id {self.vid}\n"
        return f"{made}ip link set {self.name} up\n"


class SetAddress(Struct, frozen=True):
    """Give a link this one IPv4 address, a CIDR, and no other (SetIPAddress of pkg/network/iface/vlan.go)."""

    name: str
    address: str
    others: tuple[str, ...] = ()

    @property
    def script(self) -> str:
        """Return the commands."""
        gone = "".join(f"ip address delete {item} dev {self.name}\n" for item in self.others)
        return f"ip address replace {self.address} dev {self.name}\n{gone}"


Step = AddBond | AddBridge | SetMaster | Delete | SetVlan | AddVlanLink | SetAddress


class NodeLinks(Protocol):
    """The links of one node. Everything raises NotYetError where it can't be done now."""

    async def read(self) -> Mapping[str, Link]:
        """Return all links by name."""
        ...

    async def apply(self, *steps: Step) -> None:
        """Change them, in order."""
        ...

    async def lease(self, link: str) -> str:
        """Return an address as a CIDR that a DHCP server of the link's VLAN gives."""
        ...


_READ = "ip -details -json address show && echo && bridge -json vlan show"
_LEASE = "exec python3 -m lanloom_lab.harvester.dhcp"


class LabLinks:
    """A node of the lab."""

    def __init__(self, hosts: Hosts, node: str) -> None:
        self._hosts = hosts
        self._node = node

    async def read(self) -> Mapping[str, Link]:
        """As the port says."""
        return parse(await self._run(_READ))

    async def apply(self, *steps: Step) -> None:
        """As the port says."""
        if steps:
            await self._run("set -e\n" + "".join(step.script for step in steps))

    async def lease(self, link: str) -> str:
        """As the port says."""
        return (await self._run(f"{_LEASE} {link}")).strip()

    async def _run(self, script: str) -> str:
        try:
            done = await self._hosts.run(self._node, "sh", "-c", script)
        except (LabError, OSError) as error:
            raise NotYetError(f"{self._node}: {error}") from None
        if done.status:
            raise NotYetError(f"{self._node}: {done.errors.strip()}")
        return done.output


def parse(text: str) -> dict[str, Link]:
    """Return the links that `ip` and `bridge` printed in JSON, one after the other."""
    shown, vlans = (json.loads(part) for part in text.strip().split("\n\n"))
    ids: dict[str, VlanIds] = {
        item["ifname"]: merge((vlan["vlan"], vlan.get("vlanEnd", vlan["vlan"])) for vlan in item["vlans"])
        for item in vlans
    }
    return {item["ifname"]: _link(item, ids.get(item["ifname"], ())) for item in shown if item.get("ifname")}


def _link(item: dict[str, Any], ids: VlanIds) -> Link:
    info = item.get("linkinfo", {})
    data, kind = info.get("info_data", {}), info.get("info_kind", "")
    addresses = [a for a in item.get("addr_info", ()) if a.get("family") == "inet"]
    return Link(
        name=item["ifname"],
        index=item["ifindex"],
        kind=kind,
        mtu=item["mtu"],
        up="UP" in item["flags"],
        master=item.get("master", ""),
        parent=item.get("link") or "",
        vlan_id=data.get("id", 0) if kind == "vlan" else 0,
        addresses=tuple(f"{a['local']}/{a['prefixlen']}" for a in addresses),
        bond_mode=data.get("mode", "") if kind == "bond" else "",
        bond_miimon=data.get("miimon", 0) if kind == "bond" else 0,
        tx_queue_length=item.get("txqlen", 0),
        vlan_filtering=bool(data.get("vlan_filtering")) if kind == "bridge" else False,
        vlans=() if kind == "bridge" else ids,
        self_vlans=ids if kind == "bridge" else (),
    )
