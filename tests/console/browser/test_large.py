"""A browser before 500 nodes with 20 networks each and 1,000 pools: nothing is left out, and pages follow the churn."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from tests.console.browser.tabs import Tabs
from tests.console.large import COUNT, WIDTH, bodies, plant, report
from tests.console.site import Site, site

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def tabs(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tabs]:
    """Tabs before the console of the large cluster."""
    directory: Path = tmp_path_factory.mktemp("large")
    await plant(directory / "data", bodies())
    async with site(directory, shared=True) as made:
        yield Tabs(chromium, made)


async def tell(made: Site, host: str, network: str, *, bad: bool) -> None:
    """Let a node's agent report about a network."""
    body = report(host, network, bad=bad)
    name, status = body["metadata"]["name"], {"status": body["status"]}
    await made.admin.patch(CLUSTER_NETWORK_NODES, name, status, subresource="status")


async def test_every_page_of_the_large_cluster(tabs: Tabs) -> None:
    """Every page opens, counts all that there is, and says where it shows a part; any node and pool can be found."""
    async with tabs.tab("/") as page:
        await expect(page.locator("h1")).to_have_text("Everything is ready")
        await expect(page.locator("#main")).to_contain_text(f"{COUNT} × {WIDTH}")
        await expect(page.locator("#main")).to_contain_text("400 more nodes")
        await page.goto("/networks/net/net-07?q=node-437")
        await expect(page.locator("tbody")).to_contain_text("node-437")
        await expect(page.locator(".drawing")).to_contain_text("and 440 more")
        await page.goto("/nodes/node-437")
        await expect(page.locator(".drawing")).to_contain_text("cn-19-br")
        await page.goto("/pools")
        await expect(page.locator("h2").first).to_contain_text("1000")
        await page.get_by_label("Words").fill("vm-0999")
        await page.get_by_role("button", name="Filter").click()
        await expect(page.get_by_role("region", name="Addresses")).to_contain_text("10.3.249.10")
        await page.goto("/pools/pool-0500")
        await expect(page.locator(".pool .used")).to_have_count(1)


async def test_what_fails_among_many_is_seen(tabs: Tabs) -> None:
    """While others report all the time, one node's fault comes to the top of the open pages, and goes by itself."""
    async with tabs.context() as context:
        front, network = await context.new_page(), await context.new_page()
        await front.goto("/")
        await network.goto("/networks/net/net-03")
        await expect(front.locator("h1")).to_have_text("Everything is ready")
        churn = asyncio.create_task(churned(tabs.site))
        try:
            await tell(tabs.site, "node-437", "cn-3", bad=True)
            await expect(front.locator(".problems")).to_contain_text("node-437")
            await expect(front.locator(".matrix tbody th").first).to_have_text("node-437")
            await expect(network.locator(".drawing")).to_contain_text("node-437")
            await expect(network.locator("tbody")).to_contain_text("eth1 has no carrier")
            await tell(tabs.site, "node-437", "cn-3", bad=False)
            await expect(front.locator("h1")).to_have_text("Everything is ready")
        finally:
            churn.cancel()


async def churned(made: Site) -> None:
    """Reports that change nothing that pages show, one after the other, until cancelled."""
    number = 0
    while True:
        number += 1
        body = {"metadata": {"annotations": {"beat": str(number)}}}
        await made.admin.patch(CLUSTER_NETWORK_NODES, f"cn-{number % WIDTH}-node-{number % COUNT:03}", body)
        await asyncio.sleep(0.1)
