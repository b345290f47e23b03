"""The NADs of isolated networks, as anybody writes them. Other NADs are looked at only where they come up anew."""

from collections.abc import Iterable
from contextlib import suppress

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.dummy.admission.reading import is_leaving
from lanloom.dummy.admission.world import World
from lanloom.dummy.rules.admit_nads import (
    check_foreign_nad,
    check_nad,
    check_nad_deletion,
    check_unused,
    concerns,
)
from lanloom.dummy.rules.admitted import Admitted, admitted, unsettled
from lanloom.dummy.rules.errors import Refused
from lanloom.dummy.users import fresh_users
from lanloom.kube.ports import Client


async def judge_nad(
    client: Client,
    world: World,
    new: NetworkAttachmentDefinition | None,
    old: NetworkAttachmentDefinition | None,
    *,
    now: float,
    by_manager: bool,
) -> None:
    """Raises Refused, KubeError."""
    if new is not None and is_leaving(new):
        return
    if not concerns(new, old):
        if new is not None and old is None:
            await _check_foreign(client, world, new)
        return
    try:
        _check(new, old, world.networks(), by_manager)
    except Refused:
        _check(new, old, (await client.list(DUMMY_CLUSTER_NETWORKS)).items, by_manager)
    if new is None and old is not None and not by_manager:
        await _check_unused(client, old, now)


def _check(
    new: NetworkAttachmentDefinition | None,
    old: NetworkAttachmentDefinition | None,
    networks: Iterable[DummyClusterNetwork],
    by_manager: bool,
) -> None:
    if new is not None:
        check_nad(new, old, networks, by_manager=by_manager)
    elif old is not None:
        check_nad_deletion(old, networks, by_manager=by_manager)


async def _check_foreign(client: Client, world: World, new: NetworkAttachmentDefinition) -> None:
    try:
        check_foreign_nad(new, world.networks())
    except Refused:
        check_foreign_nad(new, (await client.list(DUMMY_CLUSTER_NETWORKS)).items)


async def _check_unused(client: Client, nad: NetworkAttachmentDefinition, now: float) -> None:
    """A manager has seen to that itself before it deletes one."""
    users, pending = await fresh_users(client), tuple[Admitted, ...]()
    with suppress(ValueError):  # only managers write there; what can't be read is of nobody who waits
        pending = unsettled(admitted(nad), users.seen, now)
    check_unused(nad, users.users_of(nad.metadata.key), pending)
