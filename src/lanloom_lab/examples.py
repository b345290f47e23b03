"""The example objects of the project, as the demo applies and deletes them."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

import lanloom
from lanloom.api.core import PODS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.lan import LANS
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.kube.errors import AlreadyExists, NotFound
from lanloom.kube.ports import Client
from lanloom_lab.errors import DemoFailed

_RESOURCES: dict[str, Resource[Any]] = {
    resource.kind: resource
    for resource in (
        CLUSTER_NETWORKS,
        VLAN_CONFIGS,
        NADS,
        DUMMY_CLUSTER_NETWORKS,
        LANS,
        PODS,
        VIRTUAL_MACHINES,
    )
}


def directory() -> Path:
    """Return the directory of the examples. Raises DemoFailed if the package was installed without them."""
    found = Path(lanloom.__file__).parents[2] / "examples"
    if not found.is_dir():
        raise DemoFailed(
            f"the examples are not in {found}", "Run the demo from a checkout of the project (`make demo`)."
        )
    return found


async def apply(client: Client, *names: str) -> None:
    """Create the objects of these files, or update them. Raises KubeError."""
    for resource, body in objects(*names):
        await _apply(client, resource, body)


async def delete(client: Client, *names: str) -> None:
    """Delete the objects of these files in reverse order; missing objects are no error."""
    for resource, body in reversed(list(objects(*names))):
        await _delete(client, resource, body)


async def _apply(client: Client, resource: Resource[Any], body: dict[str, Any]) -> None:
    metadata = body["metadata"]
    namespace = metadata.get("namespace", "")
    try:
        await client.create(resource, body, namespace)
    except AlreadyExists:
        await client.patch(resource, metadata["name"], body, namespace)


async def _delete(client: Client, resource: Resource[Any], body: dict[str, Any]) -> None:
    metadata = body["metadata"]
    with suppress(NotFound):
        await client.delete(resource, metadata["name"], metadata.get("namespace", ""))


def objects(*names: str) -> Iterator[tuple[Resource[Any], dict[str, Any]]]:
    """Return the objects of these files, in order."""
    for name in names:
        for body in yaml.load_all((directory() / name).read_bytes(), Loader=yaml.CSafeLoader):
            yield _RESOURCES[body["kind"]], body
