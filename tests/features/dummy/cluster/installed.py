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
from lanloom.api.crds import manifest
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.multus import NADS
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.features.dummy.rights import CONFIG_MAP
from lanloom.kube.errors import (
    AlreadyExists,
    Forbidden,
    NotFound,
    ServerError,
)
from lanloom.kube.http import HttpClient
from lanloom.processes.definitions import manifests
from lanloom.processes.rbac import manager_roles
from lanloom.runtime.identity import MANAGER_LEASE
from tests.features.dummy.cluster.ground import eventually
from tests.harness.installing import install_webhooks

MANAGER_TOKEN = "the-manager-of-the-tests"
TOKENS = f'{MANAGER_TOKEN},system:serviceaccount:{LANLOOM_NAMESPACE}:lanloom-manager,manager,""\n'
"""The manager's account in the embedded server's token file; a real server gives tokens out itself."""

MACHINES: tuple[Resource[Any], ...] = (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES)
KUBEVIRT = tuple(map(manifest, MACHINES))

KINDS: tuple[Resource[Any], ...] = (DUMMY_CLUSTER_NETWORKS, NETWORKS, NADS, CLUSTER_NETWORKS)
"""Lanloom's kinds of which tests leave objects."""


async def install(client: HttpClient, *, kubevirt: bool, accounts: bool) -> None:
    """Applies what a manager needs: kinds, Lanloom's namespace, the manager's rights, and its account if wanted."""
    for name in (LANLOOM_NAMESPACE, BRIDGES_NAMESPACE):
        await ensure(client, NAMESPACES, {"metadata": {"name": name}})
    await install_webhooks(client)
    for crd in manifests():
        await ensure(client, CRDS, crd)
    await (_add_kubevirt if kubevirt else _remove_kubevirt)(client)
    # A manager takes a kind that is not served for one of which there are no objects, and asks again much later.
    for resource in (*KINDS, *(MACHINES if kubevirt else ())):
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
    for kind in (*KINDS, *MACHINES):
        await eventually(partial(_forget, client, kind), lambda left: left == 0)


async def unregister(client: HttpClient) -> None:
    """Removes the webhooks and the lease of a manager that is no more; then none is asked about what is written."""
    await remove_webhooks(client)
    with suppress(NotFound):
        await client.delete(LEASES, MANAGER_LEASE, LANLOOM_NAMESPACE)


async def remove_webhooks(client: HttpClient) -> None:
    """Returns when no webhook is asked about what is written: a real server learns that by a watch."""
    for webhooks in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        for item in (await client.list(webhooks)).items:
            await client.patch(webhooks, item.metadata.name, {"webhooks": []})
    await eventually(partial(_nobody_is_asked, client), bool)


async def _nobody_is_asked(client: HttpClient) -> bool:
    """Whether what a manager refuses is let in; of a NAD both kinds of webhooks are asked."""
    nad = {"config": '{"cniVersion": "0.3.1", "type": "macvlan", "master": "eth0"}'}
    network = {"bridgeName": "not a bridge", "nadName": "asked", "nadNamespace": "default"}
    with suppress(Forbidden, ServerError):
        await _try(client, NADS, "default", nad)
        await _try(client, DUMMY_CLUSTER_NETWORKS, "", network)
        return True
    return False


async def _try(client: HttpClient, kind: Resource[Any], namespace: str, spec: dict[str, Any]) -> None:
    """Wants an object made, but not kept."""
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "asked"},
        "spec": spec,
    }
    await client.request("POST", kind.path(namespace), body, query={"dryRun": "All"})


async def _add_kubevirt(client: HttpClient) -> None:
    """KubeVirt's kinds, in the versions in which they are here, whatever a test has made of them."""
    for crd in KUBEVIRT:
        await ensure(client, CRDS, crd)
        versions = {"spec": {"versions": crd["spec"]["versions"]}}
        await client.patch(CRDS, crd["metadata"]["name"], versions)


async def _remove_kubevirt(client: HttpClient) -> None:
    """Returns when KubeVirt's kinds are not served any more."""
    for crd in KUBEVIRT:
        with suppress(NotFound):
            await client.delete(CRDS, crd["metadata"]["name"])
    for kind in MACHINES:
        await eventually(partial(_is_served, client, kind), lambda served: not served)


async def _is_served(client: HttpClient, kind: Resource[Any]) -> bool:
    try:
        await client.list(kind)
    except NotFound:
        return False
    return True


async def ensure(client: HttpClient, resource: Resource[Any], body: dict[str, Any]) -> None:
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
