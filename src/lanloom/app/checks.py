"""What `lanloom doctor` looks at: each check says what it found and, where that is bad, what to do."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.kube.errors import KubeError, NotFound
from lanloom.kube.ports import Client
from lanloom.node.errors import NetworkManagerError
from lanloom.node.ports import NetworkManager

CAP_NET_ADMIN = 12
OLDEST_NETWORK_MANAGER = (1, 42)
"""The version that Lanloom is tested with; older ones may treat an edited profile differently."""


class Check(Struct, frozen=True, kw_only=True):
    """One finding. `remedy` is empty where all is well."""

    name: str
    result: Literal["ok", "warning", "failed"]
    found: str
    remedy: str = ""


def check_rights(status: str) -> Check:
    """Whether this process may change links; `status` is the text of /proc/self/status."""
    line = next((line for line in status.splitlines() if line.startswith("CapEff:")), "CapEff: 0")
    if int(line.split()[1], 16) >> CAP_NET_ADMIN & 1:
        return Check(name="rights", result="ok", found="CAP_NET_ADMIN")
    remedy = "Run as root, or give the container the capability NET_ADMIN."
    return Check(name="rights", result="failed", found="no CAP_NET_ADMIN", remedy=remedy)


def check_profiles(directory: Path) -> Check:
    """Whether profiles can be written."""
    name = "profile directory"
    if not directory.is_dir():
        remedy = "Install NetworkManager, or mount its directory of profiles and name it with --profiles."
        return Check(name=name, result="failed", found=f"{directory} is not there", remedy=remedy)
    if not os.access(directory, os.W_OK):
        return Check(name=name, result="failed", found=f"{directory} can't be written", remedy="Run as root.")
    return Check(name=name, result="ok", found=str(directory))


async def check_network_manager(manager: NetworkManager) -> Check:
    """Whether NetworkManager answers, and is new enough."""
    name = "NetworkManager"
    try:
        version = await manager.version()
    except NetworkManagerError as error:
        remedy = "Start NetworkManager; in a container, mount /run/dbus/system_bus_socket."
        return Check(name=name, result="failed", found=str(error), remedy=remedy)
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST_NETWORK_MANAGER:
        oldest = ".".join(map(str, OLDEST_NETWORK_MANAGER))
        return Check(
            name=name, result="warning", found=version, remedy=f"Lanloom is tested with {oldest} and newer."
        )
    return Check(name=name, result="ok", found=version)


async def check_cluster(client: Client) -> tuple[Check, ...]:
    """Whether the API server answers, and knows the kinds."""
    checks = []
    resources: tuple[Resource[Any], ...] = (CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES, NADS)
    for resource in resources:
        try:
            listing = await client.list(resource)
            checks.append(Check(name=resource.full_name, result="ok", found=f"{len(listing.items)} objects"))
        except NotFound:
            remedy = "Apply the CRDs: kubectl apply -f deploy/crds."
            checks.append(
                Check(name=resource.full_name, result="failed", found="unknown to the server", remedy=remedy)
            )
        except KubeError as error:
            remedy = "See that the server runs and that KUBECONFIG names it."
            return (*checks, Check(name="API server", result="failed", found=str(error), remedy=remedy))
    return tuple(checks)


def failed(checks: Iterable[Check]) -> bool:
    """Whether anything must be mended."""
    return any(check.result == "failed" for check in checks)
