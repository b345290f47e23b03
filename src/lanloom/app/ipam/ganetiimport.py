"""Writing an import: networks first, then NICs, many at once, then waiting until the manager gave the addresses."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from lanloom.api.core import NAMESPACES
from lanloom.api.ipam import NETWORKS, NICS, NetworkSpec, Nic, NicSpec
from lanloom.api.meta import Key
from lanloom.app.ipam.ganetiplan import Import
from lanloom.app.ipam.instances import refusal
from lanloom.ipam.answers import is_refused, is_satisfied
from lanloom.ipam.rules.errors import Refused
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Client

AT_ONCE = 16
"""Requests under way at a time."""

TOLD_EVERY = 1000
"""Objects that are created between two signs of life."""

PATIENCE = 30.0
"""Seconds without any NIC getting its addresses until somebody is told to see after the manager."""

_FIRST_LOOK, _LONGEST_PAUSE = 0.05, 2.0

Tell = Callable[[str], None]


async def check_namespace(client: Client, namespace: str) -> None:
    """Raises Refused where NICs could not be created, KubeError."""
    try:
        await client.get(NAMESPACES, namespace)
    except NotFound:
        raise Refused(f"there is no namespace {namespace}; create it first, or choose another one") from None


async def carry_out(client: Client, plan: Import, tell: Tell, *, wait: bool = True) -> None:
    """Creates what is missing. Raises KubeError; Refused where the manager does not give a NIC its addresses.

    What was created stays in both cases: another run goes on from there.
    """
    if plan.networks:
        tell(f"creating networks ({len(plan.networks)})")
        await _each([partial(_network, client, *one) for one in plan.networks.items()], tell, "networks")
    if plan.nics:
        tell(f"creating NICs ({len(plan.nics)})")
        await _each([partial(_nic, client, *one) for one in plan.nics.items()], tell, "NICs")
    if wait:
        await _settled(client, {*plan.nics, *plan.present}, tell)


async def _network(client: Client, name: str, spec: NetworkSpec) -> None:
    await client.create(NETWORKS, {"metadata": {"name": name}, "spec": msgspec.to_builtins(spec)})


async def _nic(client: Client, key: Key, spec: NicSpec) -> None:
    body = {"metadata": {"name": key.name}, "spec": msgspec.to_builtins(spec)}
    await client.create(NICS, body, key.namespace)


async def _each(works: Sequence[Callable[[], Awaitable[None]]], tell: Tell, what: str) -> None:
    """Does all of it, a few at a time. Raises the first error when nothing is under way any more."""
    queue, done = iter(works), 0

    async def worker() -> None:
        nonlocal done
        for work in queue:
            await work()
            done += 1
            if done % TOLD_EVERY == 0:
                tell(f"created {done} of {len(works)} {what}")

    results = await asyncio.gather(*(worker() for _ in range(AT_ONCE)), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def _settled(client: Client, wanted: set[Key], tell: Tell) -> None:
    """Waits until each NIC has its addresses, as long as there is any progress."""
    clock = asyncio.get_running_loop().time
    pause, last, since = _FIRST_LOOK, -1, clock()
    namespaces = {key.namespace for key in wanted}
    while wanted:
        nics = [nic for place in namespaces for nic in (await client.list(NICS, place)).items]
        mine = [nic for nic in nics if nic.metadata.key in wanted]
        done = sum(map(is_satisfied, mine))
        if refused := [nic for nic in mine if is_refused(nic)]:
            raise Refused("\n".join(("some NICs were refused their addresses:", *_told(refused))))
        if done == len(wanted):
            return
        if done != last:
            tell(f"{done} of {len(wanted)} NICs have their addresses")
            last, since = done, clock()
        if clock() - since > PATIENCE:
            raise Refused(
                f"only {done} of {len(wanted)} NICs have their addresses, and nobody gives more; "
                "see whether `lanloom manager` runs, and run the import again"
            )
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _told(refused: list[Nic]) -> list[str]:
    return [f"NIC {nic.metadata.key}: {refusal(nic)}" for nic in refused[:20]]
