"""Write an import: networks first, then NICs, many at once, then wait until the manager gave the addresses."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from lanloom.api.core import NAMESPACES
from lanloom.api.ipam import (
    NETWORKS,
    NICS,
    NetworkSpec,
    Nic,
    NicSpec,
)
from lanloom.api.meta import Key
from lanloom.features.ipam.commands.instances import refusal
from lanloom.features.ipam.ganeti.plan import Import
from lanloom.features.ipam.state import is_refused, is_satisfied
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Client
from lanloom.refusals import Denied

AT_ONCE = 16
"""Requests under way at a time."""

REPORT_EVERY = 1000
"""Objects that are created between two reports of progress."""

PATIENCE = 30.0
"""Seconds without any NIC getting its addresses until the import gives up."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0

Report = Callable[[str], None]


async def check_namespace(client: Client, namespace: str) -> None:
    """Raise Denied where NICs could not be created, KubeError."""
    try:
        found = await client.get(NAMESPACES, namespace)
    except NotFound:
        raise Denied(
            f"namespace {namespace} does not exist; create it first, or choose another one"
        ) from None
    if found.metadata.is_deleting:
        raise Denied(
            f"namespace {namespace} is being deleted; create it again after its deletion, or choose another one"
        )


async def carry_out(client: Client, plan: Import, report: Report, *, wait: bool = True) -> None:
    """Create what is missing. Raises KubeError; Denied where the manager does not give a NIC its addresses.

    What was created stays in both cases: another run goes on from there.
    """
    if plan.networks:
        report(f"creating networks ({len(plan.networks)})")
        await _each([partial(_network, client, *one) for one in plan.networks.items()], report, "networks")
    if plan.nics:
        report(f"creating NICs ({len(plan.nics)})")
        await _each([partial(_nic, client, *one) for one in plan.nics.items()], report, "NICs")
    if wait:
        await _settled(client, {*plan.nics, *plan.present}, report)


async def _network(client: Client, name: str, spec: NetworkSpec) -> None:
    await client.create(NETWORKS, {"metadata": {"name": name}, "spec": msgspec.to_builtins(spec)})


async def _nic(client: Client, key: Key, spec: NicSpec) -> None:
    body = {"metadata": {"name": key.name}, "spec": msgspec.to_builtins(spec)}
    await client.create(NICS, body, key.namespace)


async def _each(works: Sequence[Callable[[], Awaitable[None]]], report: Report, what: str) -> None:
    """Do all of it, a few at a time. Raises the first error when nothing is under way any more."""
    queue, done = iter(works), 0

    async def worker() -> None:
        nonlocal done
        for work in queue:
            await work()
            done += 1
            if done % REPORT_EVERY == 0:
                report(f"created {done} of {len(works)} {what}")

    results = await asyncio.gather(*(worker() for _ in range(AT_ONCE)), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def _settled(client: Client, wanted: set[Key], report: Report) -> None:
    """Wait until each NIC has its addresses, as long as there is any progress."""
    clock = asyncio.get_running_loop().time
    pause, last, since = _FIRST_PAUSE, -1, clock()
    namespaces = {key.namespace for key in wanted}
    while wanted:
        nics = [nic for place in namespaces for nic in (await client.list(NICS, place)).items]
        mine = [nic for nic in nics if nic.metadata.key in wanted]
        done = sum(map(is_satisfied, mine))
        if refused := [nic for nic in mine if is_refused(nic)]:
            raise Denied("\n".join(("some NICs were refused their addresses:", *_refusals(refused))))
        if done == len(wanted):
            return
        if done != last:
            report(f"{done} of {len(wanted)} NICs have their addresses")
            last, since = done, clock()
        if clock() - since > PATIENCE:
            raise Denied(
                f"only {done} of {len(wanted)} NICs have their addresses, and no more are allocated; "
                "check that `lanloom manager` runs, and run the import again"
            )
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _refusals(refused: list[Nic]) -> list[str]:
    return [f"NIC {nic.metadata.key}: {refusal(nic)}" for nic in refused[:20]]
