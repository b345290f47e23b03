"""`lanloom vlan` as its users call it."""

import json
from pathlib import Path

import pytest
import yaml

from lanloom.api.multus import NADS
from tests.cli.cluster import served
from tests.features.vlan.cluster import nad, vlan_config
from tests.features.vlan.views.fixture import (
    NODES,
    STATIC,
    interface,
    report,
)

pytestmark = pytest.mark.slow

FAILED = interface(
    "node3",
    state="Failed",
    address="",
    reason="DuplicateAddress",
    message="another host has 192.168.1.12; choose another address",
)
REPORTS = (*(report(name, interface(name)) for name in NODES[:2]), report("node3", FAILED))


async def test_list(tmp_path: Path) -> None:
    """The list has a row for the network with its count and reason, names the remedy, and exits with 1."""
    async with served(tmp_path, *REPORTS) as cluster:
        done = await cluster.lanloom("vlan", "list")
        row = next(line for line in done.output.splitlines() if "2012" in line)
        assert row.split() == ["default/vlan2012", "cluster-1", "2012", "static", "2/3", "DuplicateAddress"]
        assert "choose another address" in " ".join(done.output.split())
        assert max(map(len, done.output.splitlines())) <= 80
        assert done.status == 1
        (data,) = json.loads((await cluster.lanloom("vlan", "list", "--output", "json")).output)
        assert (data["network"], data["ready"], data["total"]) == ("default/vlan2012", 2, 3)


async def test_show(tmp_path: Path) -> None:
    """A NAD and its cluster network are shown with each node's address, state and remedy."""
    async with served(tmp_path, *REPORTS) as cluster:
        done = await cluster.lanloom("vlan", "show", "vlan2012")
        row = next(line for line in done.output.splitlines() if "node1" in line)
        assert row.split() == ["node1", "clust-4afb.2012", STATIC["node1"], "Ready"]
        assert "node3: another host has 192.168.1.12" in done.output
        assert done.status == 1
        whole = await cluster.lanloom("vlan", "show", "cluster-1")
        assert "cluster-1-bo" in whole.output
        assert STATIC["node2"] in whole.output
        for text in (done.output, whole.output):
            assert max(map(len, text.splitlines())) <= 80
        status = await cluster.lanloom("status")
        assert status.output.endswith("More of one network: `lanloom vlan show cluster-1`.\n")
        data = json.loads((await cluster.lanloom("vlan", "show", "cluster-1", "-o", "json")).output)
        assert [node["node"] for node in data["nodes"]] == list(NODES)


async def test_an_unknown_name(tmp_path: Path) -> None:
    """A name that nothing has is answered with the names that there are; a shell completes them."""
    async with served(tmp_path, *REPORTS) as cluster:
        done = await cluster.lanloom("vlan", "show", "nonsense")
        assert done.status == 1
        assert done.errors == "Error: there is no network nonsense; there are cluster-1, default/vlan2012\n"


async def test_completion(tmp_path: Path) -> None:
    """A shell completes the names of networks from the cluster."""
    async with served(tmp_path, *REPORTS) as cluster:
        assert await cluster.offered("lanloom vlan show cl") == ["plain,cluster-1"]


CHANGES = (
    nad("vlan2013", "cluster-1", 2013, mode="dhcp"),
    vlan_config("one", "cluster-1", nics=("eth1", "eth2"), uplink={"linkAttributes": {"mtu": 9000}}),
)


async def test_plan(tmp_path: Path) -> None:
    """A plan names each change of each node, exits with 3, and changes nothing."""
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(yaml.safe_dump_all(CHANGES))
    async with served(tmp_path, *REPORTS) as cluster:
        before = await cluster.everything()
        done = await cluster.lanloom("vlan", "plan", "-f", str(manifest))
        assert done.status == 3
        lines = done.output.splitlines()
        assert lines[:2] == [
            "+ NetworkAttachmentDefinition default/vlan2013: created",
            "~ VlanConfig one: changed",
        ]
        assert "cluster-1 on node1, node2, node3" in lines
        assert "  ~ MTU of cluster-1-bo and cluster-1-br: 1500 → 9000" in lines
        assert "  + VLAN ids 2013 of cluster-1-br" in lines
        assert max(map(len, lines)) <= 80
        data = json.loads((await cluster.lanloom("vlan", "plan", "-f", str(manifest), "-o", "json")).output)
        assert [node["node"] for node in data["nodes"]] == list(NODES)
        assert await cluster.everything() == before


async def test_plans_exit_codes(tmp_path: Path) -> None:
    """0 where no node would change, 1 for what would be refused or can't be read, 2 for wrong usage."""
    async with served(tmp_path, *REPORTS) as cluster:
        body = yaml.safe_dump(
            {"apiVersion": NADS.api_version, "kind": NADS.kind, "metadata": {"name": "vlan2012"}}
        )
        unchanged = await cluster.lanloom("vlan", "plan", "-f", "-", given=body)
        assert unchanged.status == 0
        assert "No node would change." in unchanged.output
        twin = yaml.safe_dump(nad("twin", "cluster-1", 2012, mode="dhcp"))
        refused = await cluster.lanloom("vlan", "plan", "-f", "-", given=twin)
        assert refused.status == 1
        assert "only one network may" in " ".join(refused.output.split())
        unreadable = await cluster.lanloom("vlan", "plan", "-f", "-", given="a: [")
        assert unreadable.status == 1
        assert unreadable.errors.startswith("Error: standard input is not valid YAML")
        removed = await cluster.lanloom("vlan", "plan", "--delete", "-f", "-", given=body)
        assert removed.status == 3
        assert (await cluster.lanloom("vlan", "plan")).status == 2
        assert (await cluster.lanloom("vlan", "plan", "-f", "/nowhere")).status == 2
