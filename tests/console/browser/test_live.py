"""Pages that change while they are open: with the cluster, without the API server, in many tabs, and without rights."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Error, expect

from lanloom.api.core import NODES
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.lan import LANS
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.console.sessions import Sessions
from lanloom.kube.errors import NotFound
from tests.console.browser.tabs import Tabs
from tests.console.filled import Filler
from tests.console.site import ROLES, TENANT, site

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

SPEC = {"ns": "n", "bridge": "br0", "vxlan": "vx0", "vni": 77, "defaultVxlanDev": "eth0", "spokes": ["web"]}

OBJECTS: tuple[tuple[str, Resource[Any], str, str], ...] = (
    ("/nodes/node1", NODES, "", "node1"),
    ("/cluster-networks/storage", CLUSTER_NETWORKS, "", "storage"),
    ("/networks/ours/backup", NADS, "ours", "backup"),
    ("/pools/office", NETWORKS, "", "office"),
    ("/isolated/isolated", DUMMY_CLUSTER_NETWORKS, "", "isolated"),
    ("/lans/ours/green", LANS, "ours", "green"),
    ("/lans/ours/green/trace/web/db", LANS, "ours", "green"),
    ("/machines/ours/db", VIRTUAL_MACHINES, "ours", "db"),
)
"""A page about an object of each kind, and the object."""


@pytest_asyncio.fixture(loop_scope="module")
async def tabs(chromium: Browser, tmp_path: Path) -> AsyncIterator[Tabs]:
    """Tabs before the console of a cluster of their own."""
    async with site(tmp_path, shared=True) as made:
        await Filler(made.admin).fill()
        yield Tabs(chromium, made)


async def lan(tabs: Tabs, name: str, place: str = "ours", vni: int = 77) -> None:
    """Creates a LAN."""
    body = {"metadata": {"name": name, "namespace": place}, "spec": SPEC | {"vni": vni}}
    await tabs.site.admin.create(LANS, body, place)


async def test_a_change_is_on_the_page(tabs: Tabs) -> None:
    """What is created, changed and deleted shows by itself; focus, typed words and the place of scrolling stay."""
    async with tabs.tab("/lans?show=all", viewport={"width": 360, "height": 500}) as page:
        await page.get_by_label("Words").fill("typed")
        await page.evaluate("scrollTo(0, 40)")
        await lan(tabs, "fresh")
        await expect(page.locator("tbody")).to_contain_text("fresh")
        await expect(page.get_by_label("Words")).to_be_focused()
        await expect(page.get_by_label("Words")).to_have_value("typed")
        assert await page.evaluate("scrollY") == 40
        await tabs.site.admin.delete(LANS, "fresh", "ours")
        await expect(page.locator("tbody")).not_to_contain_text("fresh")
        await page.goto("/lans/ours/blue")
        await page.locator("figure").evaluate("box => { box.scrollLeft = 40 }")
        await tabs.site.admin.patch(LANS, "blue", {"status": {"mtu": 1404}}, "ours", subresource="status")
        await expect(page.locator("dl")).to_contain_text("1404")
        assert await page.locator("figure").evaluate("box => box.scrollLeft") == 40


async def test_the_object_of_a_page_is_deleted(tabs: Tabs) -> None:
    """The page of an object that is deleted says so, and shows it again once it is there again."""
    async with tabs.tab("/lans/ours/blue") as page:
        await expect(page.locator(".drawing")).to_be_visible()
        await tabs.site.admin.delete(LANS, "blue", "ours")
        await expect(page.locator("h1")).to_have_text("There is nothing here")
        await lan(tabs, "blue", vni=78)
        await expect(page.locator("h1")).to_have_text("ours/blue")


async def test_whatever_a_page_is_about_is_deleted(tabs: Tabs) -> None:
    """The open page of each kind of object says that it is gone once it is deleted; so does the way through a LAN."""
    async with tabs.context() as context:
        pages = {path: await context.new_page() for path, *_ in OBJECTS}
        for path, page in pages.items():
            await page.goto(path)
            await expect(page.locator("footer")).to_be_visible()
        for _, kind, namespace, name in OBJECTS:
            with suppress(NotFound):
                await tabs.site.admin.patch(kind, name, {"metadata": {"finalizers": None}}, namespace)
                await tabs.site.admin.delete(kind, name, namespace)
        for page in pages.values():
            await expect(page.locator("h1")).to_have_text("There is nothing here")


async def test_the_api_server_goes_away(tabs: Tabs) -> None:
    """Without the API server a page says from when it is and keeps what it has; later it goes on by itself."""
    async with tabs.tab("/lans?show=all") as page:
        await lan(tabs, "before")
        await expect(page.locator("tbody")).to_contain_text("before")
        await tabs.site.gate.shut()
        await expect(page.get_by_role("status")).to_contain_text("What you see is of")
        await expect(page.locator("tbody")).to_contain_text("before")
        await lan(tabs, "meanwhile", vni=79)
        async with tabs.tab("/lans?show=all") as late:
            await expect(late.locator("h1")).to_have_text("The API server does not answer")
            await tabs.site.gate.open()
            await expect(page.locator("tbody")).to_contain_text("meanwhile")
            await expect(page.locator("#away")).to_be_hidden()
            await expect(late.locator("tbody")).to_contain_text("meanwhile")


async def test_seven_tabs(tabs: Tabs) -> None:
    """Seven tabs show each change, and an eighth still opens."""
    async with tabs.context() as context:
        paths = (
            "/lans?show=all",
            "/",
            "/lans",
            "/lans?q=many&show=all",
            "/lans?show=all",
            "/nodes",
            "/changes",
        )
        pages = [await context.new_page() for _ in paths]
        for page, path in zip(pages, paths, strict=True):
            await page.goto(path)
        await lan(tabs, "many", vni=80)
        for page, path in zip(pages, paths, strict=True):
            if path.startswith(("/lans", "/?")) or path == "/":
                await expect(page.locator("main")).to_contain_text("many")
        last = await context.new_page()
        await last.goto("/lans/ours/many")
        await expect(last.locator("h1")).to_have_text("ours/many")


async def test_a_tenant_hears_nothing_of_others(tabs: Tabs) -> None:
    """What happens in another namespace does not reach a tenant's stream, although the console itself sees it."""
    async with tabs.tab("/lans?namespace=ours&show=all", tenant=TENANT) as page:
        await expect(page.locator("tbody")).to_contain_text("blue")
        await lan(tabs, "foreign", "theirs", 81)
        await lan(tabs, "own", vni=82)
        await expect(page.locator("tbody")).to_contain_text("own")
        assert "foreign" not in await page.content()


async def test_a_session_that_ends_leads_to_the_login(tabs: Tabs) -> None:
    """Who is logged out elsewhere, or whose session is over, comes to the login by itself."""
    async with tabs.tab("/lans") as page:
        await expect(page.locator("tbody")).to_be_visible()
        sessions: Sessions = tabs.site.sessions
        await sessions.close_all()
        with suppress(Error):  # the page may be on its way by itself, which ends the reload
            await page.reload()
        await expect(page.locator("h1")).to_have_text("Log in")


async def test_a_right_that_is_taken_away(tabs: Tabs) -> None:
    """A tenant whose right is taken away sees nothing on the next page."""
    async with tabs.tab("/machines?namespace=ours", tenant=TENANT) as page:
        await expect(page.locator("h1")).to_have_text("Machines")
        await tabs.site.admin.request("DELETE", f"{ROLES}/rolebindings/reader")
        await page.goto("/lans/ours/blue")
        await expect(page.locator("h1")).to_have_text("You may not see this")
