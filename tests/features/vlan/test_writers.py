"""One writer for each field of an object that Harvester shares: the page's table is what Lanloom's processes write."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lanloom.api import names
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.l3annotations import is_l3_key
from lanloom.api.multus import NADS
from lanloom.kube.errors import AlreadyExists
from lanloom_lab.harvester.rules import vlan_set
from tests.features.vlan.cluster import cluster_network, nad, vlan_config
from tests.features.vlan.quiet import STATIC, Quiet, on_a_quiet_cluster
from tests.harness.harvester import Harvester
from tests.harness.interceptor import Request

PAGE = Path(__file__).parents[3] / "docs/harvester.md"
L3 = "l3connectivity-…"

Fields = set[tuple[str, str]]


def table(mode: str) -> dict[tuple[str, str], str]:
    """The writer of each object and field in a mode, as the page has it."""
    text = PAGE.read_text().partition("| Object | Field |")[2].partition("\n\n")[0]
    found = {}
    for line in text.splitlines()[2:]:
        kind, field, alone, coexisting = (cell.strip() for cell in line.strip("|").split("|"))
        fields = re.findall(
            r"`([^`]+)`", field.partition(":")[0].partition(",")[0] if "of `mgmt`" in field else field
        )
        for each in fields or ["all"]:
            name = L3 if each.endswith("-…") else each
            found[kind, name] = alone if mode == "alone" else coexisting
    return found


def written(request: Request) -> Fields:
    """The fields that a write of an object names."""
    kind, body = request.resource.kind, request.body
    if kind in ("VlanStatus", "ClusterNetworkNode"):
        return {(kind, "all")}
    if not isinstance(body, Mapping):
        return set()
    meta: Mapping[str, Any] = body.get("metadata", {})
    keys = [*meta.get("annotations", {}), *meta.get("labels", {})]
    found = {(kind, L3 if is_l3_key(key) else key.removeprefix(names.PREFIX)) for key in keys}
    conditions = body.get("status", {}).get("conditions", ())
    return found | {(kind, item["type"]) for item in conditions}


SHARED = {"ClusterNetwork", "VlanConfig", "VlanStatus", "NetworkAttachmentDefinition", "HostNetworkConfig"}


async def everything(quiet: Quiet, harvester: Harvester | None = None) -> Fields:
    """What manager and agents write while networks of all sorts come, change and go."""
    seen: list[Request] = []

    def hear(caller: str, request: Request) -> None:
        if not caller.startswith("harvester-"):
            seen.append(request)

    quiet.sim.faults.on_write = hear
    if harvester is not None:
        await harvester.install()
        await asyncio.sleep(5)
    with suppress(AlreadyExists):  # Harvester's manager makes it
        await quiet.admin.create(CLUSTER_NETWORKS, cluster_network("mgmt"))
    policy = {names.ROLLOUT: '{"maxUnavailable": 1}'}
    body = cluster_network("cluster-1")
    body["metadata"]["annotations"] = policy
    await quiet.admin.create(CLUSTER_NETWORKS, body)
    await quiet.admin.create(VLAN_CONFIGS, vlan_config("one", "cluster-1"))
    await asyncio.sleep(60)
    routed = nad("vlan2012", "cluster-1", 2012, mode="static", addresses=STATIC)
    routed["metadata"]["annotations"] |= {names.GATEWAY: "192.168.1.1/24", names.DNS: "192.168.1.53"}
    await quiet.admin.create(NADS, routed, "default")
    await quiet.until(lambda: bool(quiet.addresses()))
    await asyncio.sleep(60)
    theirs = vlan_set({2012})
    await quiet.admin.patch(CLUSTER_NETWORKS, "cluster-1", {"metadata": {"annotations": theirs}})
    await asyncio.sleep(30)
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await quiet.until(lambda: not quiet.addresses())
    await asyncio.sleep(60)
    stored = (await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")).metadata.annotations
    assert theirs.keys() <= stored.keys()
    return {
        field
        for request in seen
        if request.resource.kind in SHARED | {"ClusterNetworkNode"}
        for field in written(request)
    }


def check(found: Fields, mode: str) -> None:
    """Lanloom's processes write the fields of the table, and no others."""
    webhooks = {field for field, writer in table(mode).items() if writer == "Lanloom's webhook"}
    mine = {field for field, writer in table(mode).items() if writer.startswith("Lanloom")} - webhooks
    assert found == mine


@pytest.mark.slow
@on_a_quiet_cluster
async def test_the_fields_alone(quiet: Quiet) -> None:
    """What Lanloom writes alone is what the page says."""
    check(await everything(quiet), "alone")


@pytest.mark.slow
@on_a_quiet_cluster
async def test_the_fields_beside(quiet: Quiet) -> None:
    """What Lanloom writes alongside Harvester's is what the page says, and nothing of what that one writes."""
    check(await everything(quiet, Harvester(quiet.sim)), "beside")
