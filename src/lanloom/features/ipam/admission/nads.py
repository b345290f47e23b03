"""Validation of what NADs bring to networks: what they say to `lanloom-ipam`, and wires on which networks meet.

What an agent refuses when a pod starts is refused in the same words, whichever plugin makes the interface.

Networks with overlapping subnets come to one wire by a NAD, a LAN that joins a VLAN, or a change of a network. A NIC of
one gets no address that a NIC of the other has. But two pools over the same addresses say that each has room where both
have it once, and a router knows one subnet only, so they are refused. Subnets without that are a warning. What is there
already stays. Networks and NADs of one file come faster than the watch brings them, so those that were allowed and are
not stored yet count.
"""

import json
from collections.abc import AsyncGenerator, Collection, Iterator
from typing import Any

from msgspec.structs import replace

from lanloom.api.ipam import Network, NetworkSpec, PoolSpec, SubnetSpec
from lanloom.api.lan import LAN
from lanloom.api.meta import ObjectMeta
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.ipam.agent import PROGRAM
from lanloom.features.ipam.agent.cnitypes import parse_ipam
from lanloom.features.ipam.rules.model import Network as Model
from lanloom.features.ipam.rules.others import Wire, overlap
from lanloom.features.ipam.state import network_of
from lanloom.features.ipam.wirereader import Wires, read_wires
from lanloom.features.ipam.wires import wire_of_lan
from lanloom.hostbits import host_bits
from lanloom.kube.inflight import InFlight
from lanloom.kube.lookup import recheck
from lanloom.kube.ports import Client
from lanloom.nads.faults import ALL_ROUTED, NO_PODS, NadFault
from lanloom.refusals import Denied, Malformed
from lanloom.runtime.cni.calls import CniError

REMEDY = "use one Network for both, pools that don't overlap (or a disabled one), or another VLAN"


def nad_faults(nad: NetworkAttachmentDefinition) -> Iterator[NadFault]:
    """Yield routes with host bits, and what makes an agent refuse the pods of a NAD."""
    for field, dst in _routes(nad):
        if fault := host_bits(dst):
            yield NadFault(f"{field}: {fault}", ALL_ROUTED, fault)
    for field, section in _sections(nad):
        try:
            parse_ipam({"ipam": section})
        except CniError as error:
            text = f"{field}.{error.msg}"
            yield NadFault(text, NO_PODS, text)


def _routes(nad: NetworkAttachmentDefinition) -> Iterator[tuple[str, str]]:
    """Yield the fields of destinations, with their texts."""
    for field, section in _sections(nad):
        routes = section.get("routes")
        for index, route in enumerate(routes if isinstance(routes, list) else ()):
            dst = route.get("dst") if isinstance(route, dict) else None
            if isinstance(dst, str):
                yield f"{field}.ipam.routes[{index}].dst", dst


def _sections(nad: NetworkAttachmentDefinition) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is for Lanloom's program, and the field around it; nothing of a configuration that can't be read."""
    try:
        config: object = json.loads(nad.spec.config)
    except (ValueError, RecursionError):
        return
    plugins = config.get("plugins") if isinstance(config, dict) else None
    listed = plugins if isinstance(plugins, list) else ()
    places = [
        ("spec.config", config),
        *((f"spec.config.plugins[{at}]", one) for at, one in enumerate(listed)),
    ]
    for field, one in places:
        section = one.get("ipam") if isinstance(one, dict) else None
        if isinstance(section, dict) and section.get("type") == PROGRAM:
            yield field, section


async def check_nad_wires(
    client: Client,
    cached: Wires,
    in_flight: InFlight,
    new: NetworkAttachmentDefinition | None,
    old: NetworkAttachmentDefinition | None,
) -> tuple[str, ...]:
    """Return warnings for a NAD that brings a network to a wire. Raises Denied, KubeError."""
    if new is None:
        return ()
    title = f"NetworkAttachmentDefinition {new.metadata.key}: spec.config"

    def check(wires: Wires) -> tuple[str, ...]:
        before = set(_places(wires, old)) if old is not None else set[tuple[Wire, str]]()
        warnings: list[str] = []
        for wire, name in sorted(set(_places(wires, new)) - before):
            if (network := wires.find(name)) is not None:
                warnings += _check(title, _model(network), None, wire, wires)
        return tuple(dict.fromkeys(warnings))

    return await recheck(check, _views(client, cached, in_flight))


async def check_network_wires(
    client: Client, cached: Wires, in_flight: InFlight, new: Network | None, old: Network | None
) -> tuple[str, ...]:
    """Return warnings for a network whose subnets change, or which other NADs name now. Raises Denied, KubeError."""
    if new is None or (old is not None and _meets(old) == _meets(new)):
        return ()
    return await recheck(lambda wires: check_on_wires(wires, new, old), _views(client, cached, in_flight))


def check_on_wires(wires: Wires, new: Network, old: Network | None) -> tuple[str, ...]:
    """Return warnings for the subnets of a network that overlap others' on its wires. Raises Denied."""
    is_same = old is not None and old.spec.subnets == new.spec.subnets
    title = f"Network {new.metadata.name}: spec.{'name' if is_same else 'subnets'}"
    model, before = _model(new), _model(old) if old is not None else None
    known = wires.wires_of_network(old) if old is not None else frozenset[Wire]()
    warnings: list[str] = []
    for wire in sorted(wires.wires_of_network(new) - (known if is_same else frozenset())):
        warnings += _check(title, model, before if wire in known else None, wire, wires)
    return tuple(dict.fromkeys(warnings))


def _meets(network: Network) -> tuple[object, ...]:
    """Return what decides which networks a network meets, and in which subnets."""
    return network.spec.subnets, network.spec.name, network.spec.uuid


async def check_lan_wires(
    client: Client, cached: Wires, in_flight: InFlight, new: LAN | None, old: LAN | None
) -> tuple[str, ...]:
    """Return warnings for a LAN that brings networks to a wire. Raises Denied, KubeError.

    They are those of its spokes, and that of its own subnets, which follows from the LAN and comes to the wire later.
    """
    if new is None:
        return ()
    wire = wire_of_lan(new)
    former = old or replace(new, spec=replace(new.spec, spokes=(), subnets=()))
    stays = wire == wire_of_lan(former)
    settled = stays and new.spec.subnets == former.spec.subnets
    if settled and new.spec.spokes == former.spec.spokes:
        return ()
    joins = new.spec.uplink is not None and (old is None or not stays)
    title = f"LAN {new.metadata.key}: spec."

    def check(wires: Wires) -> tuple[str, ...]:
        before, after = wires.with_lan(former), wires.with_lan(new)
        together, there = before.networks_of_lan(former), before.networks_on(wire)
        field = f"{title}{'uplink' if joins else 'spokes'}"
        warnings: list[str] = []
        brought = after.networks_of_lan(new) - there.keys()
        for name in sorted(brought):
            known = together if name in together else frozenset[str]()
            if (network := after.find(name)) is not None:
                warnings += _check(field, _model(network), None, wire, after, known)
        if not settled and new.status.network not in brought:
            own = _own_model(former) if stays else None
            warnings += _check(f"{title}subnets", _own_model(new), own, wire, after, (new.status.network,))
        return tuple(dict.fromkeys(warnings))

    return await recheck(check, _views(client, cached, in_flight))


def _own_model(lan: LAN) -> Model | None:
    """Return the network of a LAN's own subnets, without a name: each of them is a pool. None without subnets."""
    subnets = (SubnetSpec(cidr=item.cidr, pools=(PoolSpec(range=item.cidr),)) for item in lan.spec.subnets)
    made = Network(metadata=ObjectMeta(), spec=NetworkSpec(subnets=tuple(subnets)))
    return _model(made) if lan.spec.subnets else None


async def _views(client: Client, cached: Wires, in_flight: InFlight) -> AsyncGenerator[Wires, None]:
    yield cached.with_coming(in_flight)
    yield (await read_wires(client)).with_coming(in_flight)


def _places(wires: Wires, nad: NetworkAttachmentDefinition) -> Iterator[tuple[Wire, str]]:
    """Yield where a NAD brings which network, by the name of its object."""
    for wire in wires.wires_of(nad):
        yield from ((wire, network.metadata.name) for network in wires.networks_of(nad))


def _check(
    title: str,
    mine: Model | None,
    before: Model | None,
    wire: Wire,
    wires: Wires,
    known: Collection[str] = (),
) -> Iterator[str]:
    """Return warnings for other networks on a wire. Raises Denied where pools overlap that did not `before`.

    Those that are `known` share another wire already.
    """
    if mine is None:
        return
    for name, network in sorted(wires.networks_on(wire).items()):
        other = _model(network)
        if name == mine.id or name in known or other is None or (common := overlap(mine, other)) is None:
            continue
        both = overlap(mine, other, pools=True)
        meet = f"Networks {mine.id} and {name}" if mine.id else f"this LAN and of Network {name}"
        if both is not None and (before is None or overlap(before, other, pools=True) is None):
            raise Denied(f"{title}: pools of {meet} overlap on {wire}, in {both}; {REMEDY}")
        yield (
            f"{title}: subnets of {meet} overlap on {wire}, in {common}; NICs of one get no "
            "address that the other's have"
        )


def _model(network: Network) -> Model | None:
    try:
        return network_of(network)
    except Malformed:
        return None  # the rules of networks say what is wrong
