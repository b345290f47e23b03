"""Lanloom's kinds and rights in a cluster, and KubeVirt's kinds; and all of it out again after a test."""

from contextlib import suppress
from functools import partial
from typing import Any

from lanloom.api.core import (
    CONFIG_MAPS,
    CRDS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    VALIDATING_WEBHOOKS,
)
from lanloom.api.crds import manifest, manifests
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.multus import NADS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.app.dummy.settings import CONFIG_MAP
from lanloom.app.manager import LEASE_NAME
from lanloom.app.rbac import manager_roles
from lanloom.kube.errors import AlreadyExists, NotFound
from lanloom.kube.http import HttpClient
from tests.servers.eventually import eventually

MANAGER_TOKEN = "the-manager-of-the-tests"
TOKENS = f'{MANAGER_TOKEN},system:serviceaccount:{LANLOOM_NAMESPACE}:lanloom-manager,manager,""\n'
"""The manager's account in the embedded server's token file; a real server gives tokens out itself."""

KUBEVIRT = (manifest(VIRTUAL_MACHINES), manifest(VIRTUAL_MACHINE_INSTANCES))


async def install(client: HttpClient, *, kubevirt: bool, accounts: bool) -> None:
    """Applies what a manager needs: kinds, Lanloom's namespace, the manager's rights, and its account if wanted."""
    await _ensure(client, NAMESPACES, {"metadata": {"name": LANLOOM_NAMESPACE}})
    for crd in (*manifests(), *(KUBEVIRT if kubevirt else ())):
        await _ensure(client, CRDS, crd)
    kinds: list[Resource[Any]] = [DUMMY_CLUSTER_NETWORKS, NADS, *([VIRTUAL_MACHINES] if kubevirt else [])]
    for resource in kinds:
        await eventually(partial(client.list, resource), lambda _: True)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "lanloom-manager"}}
    if accounts:
        await _post(client, f"/api/v1/namespaces/{LANLOOM_NAMESPACE}/serviceaccounts", account)
    for role in manager_roles():
        namespace = role["metadata"].get("namespace")
        base = f"/apis/{role['apiVersion']}" + (f"/namespaces/{namespace}" if namespace else "")
        await _post(client, f"{base}/{role['kind'].lower()}s", role)


async def uninstall(client: HttpClient) -> None:
    """Removes what managers and tests leave, so that the next test finds nothing of it. Lanloom's kinds stay."""
    await unregister(client)
    with suppress(NotFound):
        await client.delete(CONFIG_MAPS, CONFIG_MAP, LANLOOM_NAMESPACE)
    kinds: tuple[Resource[Any], ...] = (
        DUMMY_CLUSTER_NETWORKS,
        NETWORKS,
        NADS,
        CLUSTER_NETWORKS,
        VIRTUAL_MACHINES,
    )
    for kind in kinds:
        await eventually(partial(_forget, client, kind), lambda left: left == 0)
    for crd in KUBEVIRT:
        with suppress(NotFound):
            await client.delete(CRDS, crd["metadata"]["name"])


async def unregister(client: HttpClient) -> None:
    """Removes the webhooks and the lease of a manager that is no more."""
    await remove_webhooks(client)
    with suppress(NotFound):
        await client.delete(LEASES, LEASE_NAME, LANLOOM_NAMESPACE)


async def remove_webhooks(client: HttpClient) -> None:
    """Lets nobody be asked about what is written."""
    for webhooks in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        for item in (await client.list(webhooks)).items:
            await client.delete(webhooks, item.metadata.name)


async def _ensure(client: HttpClient, resource: Resource[Any], body: dict[str, Any]) -> None:
    """Creates what is not there, once what was called so before is gone."""

    async def read() -> bool:
        try:
            await client.create(resource, body)
        except AlreadyExists:
            there = await client.get(resource, body["metadata"]["name"])
            return there.metadata.deletion_timestamp is None
        return True

    await eventually(read, bool)


async def _post(client: HttpClient, path: str, body: dict[str, Any]) -> None:
    with suppress(AlreadyExists):
        await client.request("POST", path, body)


async def _forget(client: HttpClient, kind: Resource[Any]) -> int:
    """Removes the objects of a kind by force; the number of those that were still there."""
    try:
        found = (await client.list(kind)).items
    except NotFound:
        return 0
    for item in found:
        meta = item.metadata
        with suppress(NotFound):
            await client.patch(kind, meta.name, {"metadata": {"finalizers": None}}, meta.namespace)
            await client.delete(kind, meta.name, meta.namespace)
    return len(found)
