"""What a tenant reads of his LANs, whose nodes report on objects that he may not read."""

from pathlib import Path
from typing import Any

import pytest

from lanloom.api.core import PODS
from lanloom.api.lan import LAN_NODES
from lanloom.api.multus import NETWORK_STATUS
from tests.console.filled import Filler
from tests.console.site import TENANT, Site, read, read_until, site

pytestmark = pytest.mark.slow


async def pod(made: Site, place: str, name: str, nad: str, node: str = "node2") -> None:
    """A pod that is attached to a NAD."""
    annotations = {NETWORK_STATUS: f'[{{"name": "{nad}", "interface": "net1"}}]'}
    body: dict[str, Any] = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "web"}]},
    }
    await made.admin.create(PODS, body, place)


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
async def test_a_tenant_sees_how_his_lan_is(tmp_path: Path, shared: bool) -> None:
    """A tenant sees the state, the nodes and the messages of his LAN's status, and the attachments of his own pods."""
    async with site(tmp_path, shared=shared) as made, made.browser(TENANT) as browser:
        await Filler(made.admin).fill()
        await pod(made, "ours", "mine", "ours/k8slan-veth-mail")
        await pod(made, "theirs", "foreign", "ours/k8slan-veth-db")
        page = await read(browser, "/lans?namespace=ours")
        assert "green" in page and "the underlay link eth0 is down" in page
        page = await read(browser, "/lans/ours/green")
        assert "node2" in page and "192.168.100.12" in page and "ours/mine" in page
        assert "those of pods that you may see" in page and "foreign" not in page and "trace" not in page
        assert "/nodes/" not in page.partition("<main")[2]
        await read(browser, "/lans/theirs/secret", 403)
        await read(browser, "/lans/ours/green/trace/web/db", 403)


async def test_an_administrator_sees_what_nodes_report(tmp_path: Path) -> None:
    """Who may read what nodes report gets that, and not what pods tell."""
    async with site(tmp_path) as made, made.browser() as browser:
        await Filler(made.admin).fill()
        await pod(made, "ours", "mine", "ours/k8slan-veth-mail")
        page = await read(browser, "/lans/ours/green")
        assert "ours/mine" not in page and "ours/mail" in page and "trace" in page
        await made.admin.delete(LAN_NODES, "node3")
        await read_until(browser, "/lans/ours/green", "ours/mail", there=False)
