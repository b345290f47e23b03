"""Requests of an instance's NICs, and what they come to."""

from random import Random
from typing import Any

from lanloom.api.ipam import NICS
from lanloom.api.meta import Key
from lanloom.features.ipam.cli.grammar.net_option import changes, new_nics
from lanloom.features.ipam.commands import instancechange
from lanloom.features.ipam.commands.instancechange import ApplyOptions, Result
from lanloom.features.ipam.commands.instanceplan import PlanOptions
from lanloom.kube.ports import Client
from lanloom_embedded.local import LocalClient
from tests.features.ipam.cluster import PLACE, IpamCluster

DRY, REAL = ApplyOptions(dry_run=True), ApplyOptions()


def as_asked(cluster: IpamCluster, how: ApplyOptions) -> Client:
    """A client that stores nothing for a dry run, as commands have it."""
    return LocalClient(cluster.engine, dry_run=how.dry_run)


def key(name: str) -> Key:
    """An instance of the tests' namespace."""
    return Key(PLACE, name)


def with_(*, force: bool = False, seed: int = 1) -> PlanOptions:
    """Repeatable MAC addresses."""
    return PlanOptions(rng=Random(seed), force=force)


async def add(
    client: Client, name: str, *nets: str, how: ApplyOptions = REAL, force: bool = False
) -> list[tuple[str, ...]]:
    """Add an instance; the addresses of its NICs."""
    done = await instancechange.add(client, key(name), new_nics(nets), with_(force=force), how)
    return ips(done)


async def modify(
    client: Client, name: str, *nets: str, how: ApplyOptions = REAL, force: bool = False
) -> list[tuple[str, ...]]:
    """Change an instance; the addresses of its NICs."""
    done = await instancechange.modify(client, key(name), changes(nets), with_(force=force), how)
    return ips(done)


def ips(done: Result) -> list[tuple[str, ...]]:
    """The addresses of the NICs after what was done."""
    return [view.ips for view in done.after]


async def owned(cluster: IpamCluster) -> dict[str, tuple[str, ...]]:
    """What each NIC owns, by its object's name."""
    return {nic.metadata.name: nic.status.ips for nic in (await cluster.client.list(NICS)).items}


async def everything(cluster: IpamCluster) -> dict[str, tuple[Any, ...]]:
    """What each NIC asks for and has."""
    nics = (await cluster.client.list(NICS)).items
    return {
        nic.metadata.name: (nic.metadata.uid, nic.spec, nic.status.network, nic.status.ips) for nic in nics
    }
