"""The console of a running lab in a real browser: what happens on nodes is on the page by itself."""

import shutil
from asyncio import to_thread
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page, async_playwright, expect

from tests.lab.driver import Lab
from tests.lab.objects import example

pytestmark = [pytest.mark.lab, pytest.mark.slow]

WAIT = 240_000.0
"""Milliseconds that a condition may take: what is waited for is on nodes first."""


@pytest_asyncio.fixture
async def page(lab: Lab) -> AsyncIterator[Page]:
    """A tab that has logged in by a link of the lab."""
    program = shutil.which("chromium")
    assert program, "Chromium is missing: run scripts/setup chromium"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = await browser.new_page(reduced_motion="reduce")
        tab.set_default_timeout(WAIT)
        await tab.goto((await to_thread(lab.run, "console")).stdout.strip())
        yield tab
        await browser.close()


async def test_the_lab_on_a_page(cluster: Lab, page: Page) -> None:
    """Networks, faults of nodes and repairs show by themselves, with reasons, and go when they are over.

    A page is loaded by its link alone: each line waits until the page that is open shows it. What is waited for lasts:
    agents mend some faults before anybody could see them.
    """
    expect.set_options(timeout=WAIT)
    title, main, problem = page.locator("h1"), page.locator("#main"), page.locator(".problems li")
    await expect(title).to_have_text("Everything is ready")
    await page.get_by_role("link", name="VLAN networks", exact=True).click()
    await to_thread(cluster.kubectl, "apply", "-f", example("vlan2012-dhcp.yaml"))
    await expect(main).to_contain_text("default/vlan2012")
    await expect(main).to_contain_text("3/3")
    await page.get_by_role("link", name="default/vlan2012").first.click()
    await expect(page.locator(".drawing")).to_contain_text("192.168.")
    await page.get_by_role("link", name="Nodes", exact=True).click()
    await page.get_by_role("link", name="node2").click()
    for name in ("eth1", "cluster-1-bo", "cluster-1-br", "192.168."):
        await expect(page.locator(".drawing")).to_contain_text(name)
    await to_thread(cluster.on, "node2", "ip link delete cluster-1-br")
    await expect(page.get_by_role("region", name="Changes and repairs")).to_contain_text("cluster-1-br")
    await page.get_by_role("link", name="Lanloom").click()
    await to_thread(cluster.run, "node", "stop", "node3")
    try:
        await expect(problem.filter(has_text="node3").first).to_be_visible()
    finally:
        await to_thread(cluster.run, "node", "start", "node3")
    await expect(title).to_have_text("Everything is ready")
