"""Run the plans of a migration between Harvester's network controller and Lanloom: read, write, read again.

Every write follows from what was read just before, and every plan from the objects alone: a run that died goes on.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import (
    CRDS,
    MUTATING_WEBHOOKS,
    NODES,
    SERVICE_ACCOUNTS,
    VALIDATING_WEBHOOKS,
    CustomResourceDefinition,
    WebhookConfiguration,
)
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    HOST_NETWORK_CONFIGS,
    LINK_MONITORS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
)
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS
from lanloom.api.names import HARVESTER_ACCOUNT, HARVESTER_NAMESPACE, HARVESTER_WEBHOOK
from lanloom.api.resource import Resource
from lanloom.features.vlan.rules.migration.plans import Change, MigrationPlan, Snapshot, ready
from lanloom.kube.errors import AlreadyExists, Conflict, NotFound
from lanloom.kube.lookup import get_or_none, list_or_empty
from lanloom.kube.patches import StatusWriter
from lanloom.kube.ports import Client, Reader
from lanloom.refusals import Denied

POLL_SECONDS = 2.0
"""Seconds between two looks while others have something to do."""

Planner = Callable[[Snapshot], MigrationPlan]


async def read_snapshot(client: Reader) -> Snapshot:
    """Read everything that a plan is made of. Raises KubeError."""
    harvesters: tuple[Resource[Any], ...] = (VLAN_STATUSES, LINK_MONITORS)
    kinds: tuple[Resource[Any], ...] = (CLUSTER_NETWORKS, VLAN_CONFIGS, HOST_NETWORK_CONFIGS, *harvesters)
    configurations: tuple[Resource[WebhookConfiguration], ...] = (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)
    others: list[tuple[Resource[Any], Object]] = []
    for kind in harvesters:
        others += [(kind, item) for item in await list_or_empty(client, kind)]
    webhooks = [
        (kind, HARVESTER_WEBHOOK)
        for kind in configurations
        if await get_or_none(client, kind, Key("", HARVESTER_WEBHOOK)) is not None
    ]
    definitions: list[CustomResourceDefinition] = []
    for kind in kinds:
        found = await get_or_none(client, CRDS, Key("", kind.full_name))
        definitions += [found] if found is not None else []
    return Snapshot(
        controller=await _exists(client, HARVESTER_ACCOUNT),
        webhook=await _exists(client, HARVESTER_WEBHOOK),
        nodes=(await client.list(NODES)).items,
        networks=(await client.list(CLUSTER_NETWORKS)).items,
        configs=(await client.list(VLAN_CONFIGS)).items,
        nads=(await client.list(NADS)).items,
        reports=(await client.list(CLUSTER_NETWORK_NODES)).items,
        host_networks=await list_or_empty(client, HOST_NETWORK_CONFIGS),
        others=tuple(others),
        definitions=tuple(definitions),
        webhooks=tuple(webhooks),
    )


async def _exists(client: Reader, account: str) -> bool:
    return await get_or_none(client, SERVICE_ACCOUNTS, Key(HARVESTER_NAMESPACE, account)) is not None


async def migrate(
    client: Client, planner: Planner, done: Callable[[Change], None], *, wait_seconds: float = 0.0
) -> MigrationPlan:
    """Do what can be done, and return what is left: nothing, waits, or refusals. Raises KubeError and Denied.

    `done` receives each write. Others get `wait_seconds` for what they have to do.
    """
    loop, before = asyncio.get_running_loop(), MigrationPlan()
    until = loop.time() + wait_seconds
    while True:
        plan = planner(await read_snapshot(client))
        changes = ready(plan)
        if not changes and (plan.refusals or not plan.items or loop.time() >= until):
            return plan
        if changes and plan == before:
            raise Denied(
                f"{changes[0].title} is as it was after it was changed; another program changes it back"
            )
        before = plan
        await _write(client, changes, done)
        if not changes:
            await asyncio.sleep(POLL_SECONDS)


async def _write(client: Client, changes: tuple[Change, ...], done: Callable[[Change], None]) -> None:
    """Write until an object is not as it was read: then the rest of the plan may be wrong."""
    for change in changes:
        try:
            await _apply(client, change)
        except (AlreadyExists, Conflict, NotFound):
            return
        done(change)


async def _apply(client: Client, change: Change) -> None:
    resource, key = change.resource, change.key
    patch = dict(change.body)
    if change.version:
        patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": change.version}
    match change.verb:
        case "create":
            await client.create(resource, change.body, key.namespace)
        case "delete":
            await client.delete(resource, key.name, key.namespace, resource_version=change.version)
        case "change" if change.status:
            await StatusWriter(client).patch(resource, key.name, patch, key.namespace)
        case "change":
            await client.patch(resource, key.name, patch, key.namespace)
