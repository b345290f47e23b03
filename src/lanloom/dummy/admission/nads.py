"""The NADs of isolated networks, as anybody writes them. Other NADs are looked at only where they come up anew."""

from collections.abc import Iterable
from contextlib import suppress

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork
from lanloom.api.multus import NetworkAttachmentDefinition
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
from lanloom.dummy.rules.marks import owner_of
from lanloom.dummy.users import SharedLooks
from lanloom.kube.ports import Client


async def judge_nad(
    client: Client,
    world: World,
    new: NetworkAttachmentDefinition | None,
    old: NetworkAttachmentDefinition | None,
    *,
    now: float,
    by_manager: bool,
    looks: SharedLooks,
) -> None:
    """Raises Refused, KubeError."""
    if new is not None and new.metadata.is_leaving:
        return
    if not concerns(new, old):
        if new is not None and old is None:
            await _check_foreign(client, world, new)
        return
    await _check_marked(client, world, new, old, by_manager=by_manager)
    if new is None and old is not None and not by_manager:
        await _check_unused(looks, old, now)


async def _check_marked(
    client: Client,
    world: World,
    new: NetworkAttachmentDefinition | None,
    old: NetworkAttachmentDefinition | None,
    *,
    by_manager: bool,
) -> None:
    """The NAD of a network that the store does not know is not an orphan for that."""
    networks = tuple(world.networks())
    try:
        _check(new, old, networks, by_manager)
        known = _owners(new, old) <= {item.metadata.uid for item in networks}
    except Refused:
        known = False
    if not known:
        _check(new, old, (await client.list(DUMMY_CLUSTER_NETWORKS)).items, by_manager)


def _owners(*nads: NetworkAttachmentDefinition | None) -> set[str]:
    return {uid for nad in nads if nad is not None and (uid := owner_of(nad))}


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


async def _check_unused(looks: SharedLooks, nad: NetworkAttachmentDefinition, now: float) -> None:
    """A manager has seen to that itself before it deletes one."""
    users, pending = await looks.users(), tuple[Admitted, ...]()
    with suppress(ValueError):  # only managers write there; what can't be read is of nobody who waits
        pending = unsettled(admitted(nad), users.seen, now)
    check_unused(nad, users.users_of(nad.metadata.key), pending)
