"""What others changed on a host, told from what a plan would do about it although nothing else is wanted than before.

Each piece of drift is a sentence for an operator and a kind for a counter.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from lanloom.features.vlan.rules.names import network_of_profile
from lanloom.features.vlan.rules.plan import Plan
from lanloom.node.ports import Link, LinkState, LinkStep
from lanloom.node.steps import (
    AddVlans,
    DeleteLink,
    EnsureBond,
    EnsureBridge,
    RemoveVlans,
    SetMaster,
    SetMtu,
    SetUp,
)
from lanloom.node.vlanids import VlanIds, render

DriftKind = Literal["link", "vlan-id", "profile", "address", "route"]


class Drift(Struct, frozen=True):
    """One thing that was not as it had been left: a sentence without a full stop, of a cluster network."""

    cluster_network: str
    kind: DriftKind
    text: str


def drift(
    networks: Iterable[str], todo: Plan, observed: LinkState, files: Iterable[str] = ()
) -> tuple[Drift, ...]:
    """Return the drift that the plan repairs on these cluster networks, whose desired state has not changed.

    `observed` and `files` are what the plan was made from: a profile that is among `files` was edited, another removed.
    """
    names, present = set(networks), set(files)
    found = [
        Drift(name, kind, text)
        for name, steps in todo.steps
        if name in names
        for step in steps
        for kind, text in _described(step, observed)
    ]
    profiles = [(file, "edited" if file in present else "removed") for file, _ in todo.write_files]
    profiles += [(file, "added") for file in todo.remove_files]
    found += [
        Drift(name, "profile", f"the profile {file} was {what}")
        for file, what in profiles
        if (name := network_of_profile(file)) in names
    ]
    return tuple(found)


def _described(step: LinkStep, observed: LinkState) -> Iterator[tuple[DriftKind, str]]:
    match step:
        case EnsureBond() | EnsureBridge():
            yield from (("link", text) for text in _built(step, observed.links.get(step.name)))
        case SetMaster():
            yield "link", _membership(step, observed.links.get(step.link))
        case SetMtu():
            link = observed.links.get(step.link)
            yield "link", f"{step.link} had the MTU {link.mtu if link else 0} instead of {step.mtu}"
        case SetUp():
            yield "link", f"{step.link} was down"
        case AddVlans():
            yield "vlan-id", f"{_ids(step.ids)} missing on {step.link}"
        case RemoveVlans():
            yield "vlan-id", f"{_ids(step.ids)} added to {step.link}"
        case DeleteLink():
            yield "link", f"{step.name} was added"


def _built(step: EnsureBond | EnsureBridge, link: Link | None) -> list[str]:
    kind = "bond" if isinstance(step, EnsureBond) else "bridge"
    if link is None:
        return [f"the {kind} {step.name} was gone"]
    texts = [] if link.up else [f"the {kind} {step.name} was down"]
    if link.mtu != step.mtu:
        texts.append(f"the {kind} {step.name} had the MTU {link.mtu} instead of {step.mtu}")
    if isinstance(step, EnsureBridge):
        return texts + ([] if link.vlan_filtering else [f"VLAN filtering of the bridge {step.name} was off"])
    if link.bond_mode != step.mode:
        texts.append(f"the bond {step.name} had the mode {link.bond_mode} instead of {step.mode}")
    if step.miimon not in (None, link.bond_miimon):
        texts.append(f"the bond {step.name} had the miimon {link.bond_miimon} instead of {step.miimon}")
    if step.tx_queue_length not in (None, link.tx_queue_length):
        length = f"{link.tx_queue_length} packets instead of {step.tx_queue_length}"
        texts.append(f"the queue of the bond {step.name} took {length}")
    if step.mac not in ("", link.mac):
        texts.append(f"the bond {step.name} had the MAC address {link.mac} instead of {step.mac}")
    return texts


def _membership(step: SetMaster, link: Link | None) -> str:
    if not step.master:
        return f"{step.link} was put into {link.master if link is not None else 'a bond'}"
    return f"{step.link} was not in {step.master}"


def _ids(ids: VlanIds) -> str:
    single = len(ids) == 1 and ids[0][0] == ids[0][1]
    return f"VLAN id {render(ids)} was" if single else f"VLAN ids {render(ids)} were"
