"""Steps as rtnetlink messages: what has its effect already is not sent again."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from lanloom.node.errors import LinkError
from lanloom.node.guards import BOND_MODES, describe, guard
from lanloom.node.netlink.dump import RANGE_BEGIN, RANGE_END, read_links
from lanloom.node.netlink.remedies import remedy
from lanloom.node.ports import MARK
from lanloom.node.steps import (
    AddVlans,
    DeleteLink,
    EnsureBond,
    EnsureBridge,
    LinkStep,
    RemoveVlans,
    SetMaster,
    SetMtu,
    SetUp,
)
from lanloom.node.vlanids import VlanIds

UNFINISHED = "lanloom-new"
"""The name of a link until it has its mark: the kernel takes no ifalias when it makes a link, and a link that
was made by an agent that died before it could mark it would be nobody's for ever. Renaming and marking are one
message."""

BRIDGE_SELF = 2
"""BRIDGE_FLAGS_SELF: the ids are meant for the bridge itself, not for it as a port of another."""

NO_ADDRESSES = {"attrs": [("AF_INET6", {"attrs": [("IFLA_INET6_ADDR_GEN_MODE", 1)]})]}
"""No IPv6 link-local address: the host must not become reachable on a network that only its guests are meant to
be on."""


class Changes:
    """Applies steps, and knows the links as these steps leave them; sends through `route`, looks through `dumps`."""

    def __init__(self, route: IPRoute, dumps: socket.socket) -> None:
        self._route = route
        self._dumps = dumps
        self._links = read_links(dumps)

    def apply(self, step: LinkStep) -> None:
        """Applies one step. Raises LinkError and its kinds; a step that failed may have had a part of its effect."""
        guard(step, self._links)
        with _explained(step):
            self._dispatch(step)

    def _dispatch(self, step: LinkStep) -> None:
        match step:
            case EnsureBond():
                self._ensure_bond(step)
            case EnsureBridge():
                self._ensure_bridge(step)
            case SetMaster():
                self._set_master(step.link, step.master)
            case SetMtu():
                self._adjust(step.link, mtu=step.mtu)
            case SetUp():
                self._adjust(step.link, up=True)
            case AddVlans():
                self._set_vlans("add", step.link, step.ids, step.self_)
            case RemoveVlans():
                if step.link in self._links:
                    self._set_vlans("del", step.link, step.ids, step.self_)
            case DeleteLink():
                self._delete(step.name)

    def _ensure_bond(self, step: EnsureBond) -> None:
        if step.name not in self._links:
            self._make(step.name, kind="bond", bond_mode=BOND_MODES.index(step.mode))
        elif self._links[step.name].bond_mode != step.mode:
            self._change_mode(step.name, step.mode)
        if step.miimon is not None and self._links[step.name].bond_miimon != step.miimon:
            self._set(step.name, kind="bond", bond_miimon=step.miimon)
        self._adjust(step.name, mtu=step.mtu, up=True)

    def _change_mode(self, name: str, mode: str) -> None:
        # The kernel changes the mode only of a bond that is down and has no slaves.
        slaves = [link.name for link in self._links.values() if link.master == name]
        for slave in slaves:
            self._set_master(slave, "")
        self._set(name, state="down")
        self._set(name, kind="bond", bond_mode=BOND_MODES.index(mode))
        for slave in slaves:
            self._set_master(slave, name)

    def _ensure_bridge(self, step: EnsureBridge) -> None:
        if step.name not in self._links:
            self._make(step.name, kind="bridge", br_vlan_filtering=1, br_stp_state=0)
        elif not self._links[step.name].vlan_filtering:
            self._set(step.name, kind="bridge", br_vlan_filtering=1)
            self._refresh()
        if not self._links[step.name].vlan_filtering:
            raise LinkError(
                f"{describe(step)}: this kernel has no VLAN filtering (CONFIG_BRIDGE_VLAN_FILTERING)"
            )
        self._adjust(step.name, mtu=step.mtu, up=True)

    def _make(self, name: str, **attributes: Any) -> None:
        if UNFINISHED in self._links:
            self._route.link("del", index=self._links[UNFINISHED].index)
        self._route.link("add", ifname=UNFINISHED, **attributes)
        self._refresh()
        with _tolerating(errno.EAFNOSUPPORT):  # a kernel with ipv6.disable=1 gives no such addresses anyway
            self._set(UNFINISHED, IFLA_AF_SPEC=NO_ADDRESSES)
        self._set(UNFINISHED, ifname=name, ifalias=MARK)
        self._refresh()

    def _set_master(self, name: str, master: str) -> None:
        link = self._links[name]
        if link.master != master:
            if master and self._links[master].kind == "bond" and link.up:
                self._set(name, state="down")
            self._set(name, master=self._links[master].index if master else 0)
            self._refresh()
        if master and not self._links[name].up:
            self._set(name, state="up")
            self._refresh()

    def _adjust(self, name: str, *, mtu: int = 0, up: bool = False) -> None:
        link = self._links[name]
        if mtu and link.mtu != mtu:
            self._set(name, mtu=mtu)
        if up and not link.up:
            self._set(name, state="up")
        self._refresh()

    def _set_vlans(self, command: str, name: str, ids: VlanIds, on_bridge: bool) -> None:
        entries: list[tuple[str, Any]] = [("IFLA_BRIDGE_FLAGS", BRIDGE_SELF)] if on_bridge else []
        entries += (("IFLA_BRIDGE_VLAN_INFO", {"vid": vid, "flags": flags}) for vid, flags in _messages(ids))
        self._route.vlan_filter(command, index=self._links[name].index, IFLA_AF_SPEC={"attrs": entries})

    def _delete(self, name: str) -> None:
        if name in self._links:
            with _tolerating(errno.ENODEV):  # somebody else was quicker
                self._route.link("del", index=self._links[name].index)
            self._refresh()

    def _set(self, name: str, **attributes: Any) -> None:
        self._route.link("set", index=self._links[name].index, **attributes)

    def _refresh(self) -> None:
        self._links = read_links(self._dumps)


def _messages(ids: VlanIds) -> Iterator[tuple[int, int]]:
    for first, last in ids:
        if first == last:
            yield first, 0
        else:
            yield first, RANGE_BEGIN
            yield last, RANGE_END


@contextmanager
def _tolerating(code: int) -> Iterator[None]:
    try:
        yield
    except NetlinkError as error:
        if error.code != code:
            raise


@contextmanager
def _explained(step: LinkStep) -> Iterator[None]:
    try:
        yield
    except NetlinkError as error:
        raise LinkError(f"{describe(step)}: {os.strerror(error.code)}{remedy(step, error.code)}") from error
