"""Imports of a cluster of Ganeti into one with a manager, and what is there afterwards."""

from typing import Any

import msgspec

from lanloom.features.ipam.ganeti.formats.config import config_of
from lanloom.features.ipam.ganeti.importing import carry_out
from lanloom.features.ipam.ganeti.plan import Import, plan_import
from lanloom.features.ipam.state import read_state
from tests.features.ipam.cluster import PLACE, IpamCluster
from tests.features.ipam.ganeti.formats.clusters import (
    Json,
    config,
    instance,
    network,
    nic,
)

LINK = {"link": "br100", "mode": "bridged", "vlan": ""}


def cluster() -> Json:
    """A cluster with a network of both IP versions, one without a gateway, and NICs of all kinds."""
    one = network(
        "net1", "192.0.2.0/28", used=[2, 3], external=[3], network6="2001:db8::/64", tags=["b", "a"]
    )
    two = network("Net_2", "198.51.100.0/29", gateway=None)
    machines = [
        instance(
            "inst1.example.com", [nic(1, "192.0.2.2", one["uuid"], name="front"), nic(2, None, two["uuid"])]
        ),
        instance("inst2.example.com", [nic(3, "192.0.2.3", one["uuid"]), nic(4, "203.0.113.7")]),
    ]
    return config([one, two], machines, {"net1": LINK})


async def planned(target: IpamCluster, data: Json, *, keep: bool = False, force: bool = False) -> Import:
    """What an import would do now."""
    return plan_import(config_of(data), await read_state(target.client), PLACE, keep=keep, force=force)


async def bring(target: IpamCluster, data: Json, *, keep: bool = False, force: bool = False) -> Import:
    """Import all of it."""
    plan = await planned(target, data, keep=keep, force=force)
    await carry_out(target.client, plan, lambda step: None)
    return plan


async def everything(target: IpamCluster) -> list[tuple[Any, ...]]:
    """Every object with what it asks for and has."""
    state = await read_state(target.client)
    networks = [(item.metadata.name, item.metadata.uid, item.spec) for item in state.networks]
    return [
        *networks,
        *((str(nic.metadata.key), nic.metadata.uid, nic.spec, nic.status.ips) for nic in state.nics),
    ]


async def reconfigure(target: IpamCluster, **values: Json) -> None:
    """Change the first subnet of the first network."""
    first, *others = (msgspec.to_builtins(one) for one in (await target.net("net1")).spec.subnets)
    await target.configure({**first, **values}, *others, name="net1")
