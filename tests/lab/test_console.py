"""The console of a running lab in a real browser: what happens on nodes is on the page by itself."""

import shutil
import time
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


LOSE = "ip netns add away; ip link set eth1 netns away"
GIVE_BACK = "ip -n away link set eth1 netns $$; ip netns delete away"
"""A NIC that is no longer there is a fault that no agent can mend."""

FIRST_SEEN = """(words) => {
  window.seen = new Promise((resolve) => {
    const read = () => {
      const items = [...document.querySelectorAll(".problems li")].map((item) => item.textContent);
      if (items.some((text) => words.every((word) => text.includes(word)))) { resolve(Date.now() / 1000); }
    };
    new MutationObserver(read).observe(document.body, { subtree: true, childList: true, characterData: true });
    read();
  });
}"""
"""Note when a problem with these words is first on the page."""


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
    agents mend some faults before a browser shows them.
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


async def test_a_link_fault_on_the_first_page(cluster: Lab, page: Page) -> None:
    """A node that loses its NIC is on the first page, with the NIC's name, and goes from there when it has it again.

    The page that is open shows it by itself. The time from the loss on is printed (`-rP`), and is no condition.
    """
    expect.set_options(timeout=WAIT)
    title = page.locator("h1")
    await expect(title).to_have_text("Everything is ready")
    await page.evaluate(FIRST_SEEN, ["node2", "eth1"])
    lost = time.time()
    await to_thread(cluster.on, "node2", LOSE)
    try:
        problem = page.locator(".problems li").filter(has_text="node2").filter(has_text="eth1")
        await expect(problem.first).to_be_visible()
        seen = await page.evaluate("window.seen")
        print(f"on the page {seen - lost:.2f} s after the loss")
    finally:
        await to_thread(cluster.on, "node2", GIVE_BACK)
    await expect(title).to_have_text("Everything is ready")
