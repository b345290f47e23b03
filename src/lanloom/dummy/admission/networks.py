"""DummyClusterNetworks as users write them, and VlanConfigs that would take their bridges.

Networks are made and changed seldom. So what matters to one is read anew at once, where that is little; what are many
objects (VlanConfigs, nodes) is taken from the stores, and read anew before anybody is refused because of it.
"""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress

from lanloom.api.core import NAMESPACES
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork
from lanloom.api.harvester import VLAN_CONFIGS, VlanConfig
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.dummy.admission.world import World
from lanloom.dummy.ranges import read_ranges
from lanloom.dummy.rules.admit_networks import (
    NODE_GATEWAY,
    check_claims,
    check_config,
    check_place,
    check_subnet,
    check_uplinks,
)
from lanloom.dummy.rules.errors import InvalidSpec, Refused
from lanloom.dummy.rules.listing import listed
from lanloom.dummy.rules.model import Isolated
from lanloom.dummy.rules.spec import changes, changes_while_used, parse
from lanloom.dummy.users import SharedLooks
from lanloom.kube.lookup import look_up
from lanloom.kube.ports import Client


async def judge_network(
    client: Client,
    world: World,
    new: DummyClusterNetwork | None,
    old: DummyClusterNetwork | None,
    looks: SharedLooks,
) -> tuple[str, ...]:
    """The warnings. Raises Refused, InvalidSpec, KubeError."""
    if new is None:
        return tuple(_who_keeps(world, old)) if old is not None else ()
    if new.metadata.is_leaving or (old is not None and old.spec == new.spec):
        return ()
    if old is not None:
        changes(old, new)
    net = parse(new)
    present = (await client.list(DUMMY_CLUSTER_NETWORKS)).items
    if old is None and any(item.metadata.name == net.name for item in present):
        return ()  # the API server says that it is there already, which many expect
    if old is None or _places(old) != _places(new):
        await _check_places(client, world, net, present)
    if old is not None and (old.spec.subnet, old.spec.gateway) != (new.spec.subnet, new.spec.gateway):
        changes_while_used(old, new, (await looks.users()).users_of(net.nad))
    if net.subnet is not None:
        known = await read_ranges(client, world.nodes(), world.settings)
        check_subnet(net, known, _readable(present))
    return tuple([text async for text in _warnings(client, net)])


async def judge_config(client: Client, world: World, new: VlanConfig | None, old: VlanConfig | None) -> None:
    """Raises Refused, KubeError."""
    if new is None or new.metadata.is_leaving:
        return
    try:
        check_config(new, old, world.networks())
    except Refused:
        check_config(new, old, (await client.list(DUMMY_CLUSTER_NETWORKS)).items)


async def _check_places(
    client: Client, world: World, net: Isolated, present: Iterable[DummyClusterNetwork]
) -> None:
    """Whether bridge and NAD are free."""
    check_claims(net, present)
    check_place(net, await look_up(client, NADS, net.nad))
    try:
        check_uplinks(net, world.configs())
    except Refused:
        check_uplinks(net, (await client.list(VLAN_CONFIGS)).items)


def _places(item: DummyClusterNetwork) -> tuple[str, Key]:
    return item.spec.bridge_name, item.spec.nad


def _readable(networks: Iterable[DummyClusterNetwork]) -> Iterator[Isolated]:
    for item in networks:
        with suppress(InvalidSpec):
            yield parse(item)


async def _warnings(client: Client, net: Isolated) -> AsyncIterator[str]:
    """What may surprise later. A namespace may come in the same breath as the network, so it is not insisted on."""
    if await look_up(client, NAMESPACES, Key("", net.nad.namespace)) is None:
        yield f"spec.nadNamespace: there is no namespace {net.nad.namespace} yet; the network is ready when there is"
    if net.gateway == "node":
        yield NODE_GATEWAY


def _who_keeps(world: World, old: DummyClusterNetwork) -> Iterator[str]:
    if users := world.users.users_of(old.spec.nad):
        yield (
            f"DummyClusterNetwork {old.metadata.name} is used by {listed(map(str, users))}; it stays until nobody uses "
            "it any more, and nobody new may use it"
        )
