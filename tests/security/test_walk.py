"""The walk of two tenants in `docs/security.md`: its commands are run in order, and print what the page shows."""

import shutil
from pathlib import Path

import pytest

from lanloom.api.lan import LAN_NODES
from lanloom.kube.ports import Client
from tests.cli.cluster import served
from tests.cli.pages import check_page
from tests.security.page import PAGE

ROOT = Path(__file__).parents[2]


async def report_underlays(client: Client) -> None:
    """An agent has the links that LANs of the examples name."""
    found = [{"name": name, "mtu": 1500, "addresses": ["IPv4"]} for name in ("eth0", "mgmt-br.2021")]
    await client.create(LAN_NODES, {"metadata": {"name": "node1"}})
    await client.patch(LAN_NODES, "node1", {"status": {"underlays": found}}, subresource="status")


@pytest.mark.slow
def test_the_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command of the page prints what the page shows; LANLOOM_GOLDEN=rewrite writes the page again."""
    place = tmp_path / "place"
    shutil.copytree(ROOT / "examples", place / "examples")
    monkeypatch.chdir(place)
    with served(tmp_path, manager=True) as cluster:
        cluster.do(report_underlays)
        check_page(cluster, PAGE)
