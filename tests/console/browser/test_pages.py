"""Every page in a real browser: hostile texts, accessibility, layout, and what a tenant sees."""

import json
import os
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from lanloom.api.lan import LANS
from tests.console.browser.pictures import differences, golden_of, picture_of
from tests.console.browser.tabs import PATHS, Tabs, Theme
from tests.console.site import TENANT

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

AXE = (files("axe_playwright_python") / "axe.min.js").read_text()

WIDTHS = (320, 1024, 3840)

THEMES: tuple[Theme, ...] = ("light", "dark")

NARROW, PAPER = 320, 720
"""The widths of a small phone, and of a page of paper, in pixels."""

SEEN: tuple[tuple[int, Theme, list[str]], ...] = (
    (1280, "light", []),
    (1280, "dark", ["color-contrast"]),
    (NARROW, "light", []),
)
"""The rules that are run at a width in a theme; none means all of them."""

RUN_AXE = """async (rules) => (await axe.run(rules.length ? { runOnly: rules } : {})).violations.map(
  (rule) => `${rule.id}: ${rule.nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`)"""
"""Run some rules, or all."""


async def test_everybody_can_use_every_page(tabs: Tabs) -> None:
    """No page breaks a rule of accessibility that can be checked, in either theme or on a phone; nor does the login."""
    found: dict[str, list[str]] = {}
    async with tabs.tab(bypass_csp=True) as page:
        for path in (*PATHS, "/nowhere", "/login"):
            await page.goto(path)
            await page.evaluate(AXE)
            for width, theme, rules in SEEN:
                await page.set_viewport_size({"width": width, "height": 900})
                await page.emulate_media(color_scheme=theme)
                found[f"{path} {theme} {width}"] = await page.evaluate(RUN_AXE, rules)
    bad = {name: violations for name, violations in found.items() if violations}
    assert not bad, json.dumps(bad, indent=1)


async def test_texts_of_others_stay_texts(tabs: Tabs) -> None:
    """Markup in messages, annotations and filters runs nowhere, and makes no element."""
    async with tabs.tab() as page:
        await page.add_init_script(
            "window.addEventListener('securitypolicyviolation', () => { window.broken = 1; })"
        )
        for path in PATHS:
            await page.goto(path)
            await page.goto(f"{path}?q=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E&show=all")
            await expect(page.locator("h1")).to_be_visible()
            assert await page.locator("img, main script").count() == 0, path
            assert "owned" not in await page.title(), path
            assert not await page.evaluate("window.broken"), path


async def test_a_tenant_sees_what_is_his(tabs: Tabs) -> None:
    """A user of one namespace finds nothing of others on any page, in any drawing, or in what is sent later."""
    async with tabs.tab("/machines?namespace=ours", tenant=TENANT) as page:
        await expect(page.get_by_role("link", name="db")).to_be_visible()
        heard: list[str] = []
        page.on("response", lambda answer: heard.append(answer.url))
        for path in (*PATHS, "/machines/theirs/secret", "/lans/theirs/secret", "/networks/theirs/hidden"):
            for query in ("", "?namespace=ours", "?namespace=theirs"):
                await page.goto(path + query)
                await expect(page.locator("h1")).to_be_visible()
                text = (await page.content()).replace("/theirs/secret", "").replace("theirs/hidden", "")
                assert "secret" not in text and "hidden-" not in text and "VLAN 2099" not in text, (
                    path + query
                )
        assert heard


async def test_by_keyboard_alone(tabs: Tabs) -> None:
    """The first Tab leads past the menu; boxes of a drawing and addresses of a map are reached and followed by keys."""
    async with tabs.tab("/lans/ours/green") as page:
        await page.keyboard.press("Tab")
        await expect(page.get_by_text("Skip to the page")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("#main")).to_be_focused()
        await page.locator(".drawing a").first.focus()
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(f"{tabs.site.address}/nodes/node1")
        await page.goto("/pools/office")
        await page.locator(".pool .used").first.focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("tbody")).to_contain_text(["10.0.4.16", "10.0.4.16"])


async def test_filters_are_part_of_the_address(tabs: Tabs) -> None:
    """A filter is in the address, is there after Back, and goes by one link; what is well is shown if asked for."""
    async with tabs.tab("/lans") as page:
        await expect(page.locator("tbody")).not_to_contain_text("blue")
        await page.get_by_role("link", name="Show all 3").click()
        await expect(page.locator("tbody")).to_contain_text("blue")
        await page.get_by_label("Words").fill("blue")
        await page.get_by_role("button", name="Filter").click()
        await expect(page).to_have_url(f"{tabs.site.address}/lans?q=blue&show=all&namespace=")
        await expect(page.locator("tbody")).not_to_contain_text("green")
        await page.get_by_role("link", name="blue").click()
        await page.go_back()
        await expect(page.get_by_label("Words")).to_have_value("blue")
        await page.get_by_role("link", name="Clear").click()
        await expect(page.locator("tbody")).to_contain_text("green")


async def test_counters_come_after_the_page(tabs: Tabs) -> None:
    """The page of a LAN gets its counters, and keeps them when it changes; without scripts a link leads to them."""
    async with tabs.tab("/lans/ours/blue") as page:
        part = page.locator("[data-part]")
        await expect(part.locator("tbody")).to_contain_text("1.23 MB")
        await expect(part).to_contain_text("node3: no agent of LANs runs there as a pod")
        await page.route("**/counters", lambda route: route.abort())
        await tabs.site.admin.patch(LANS, "blue", {"status": {"mtu": 1404}}, "ours", subresource="status")
        await expect(page.locator("dl")).to_contain_text("1404")
        await expect(part.locator("tbody")).to_contain_text("1.23 MB")
        await tabs.site.admin.patch(LANS, "blue", {"status": {"mtu": 1450}}, "ours", subresource="status")
    async with tabs.tab("/lans/ours/blue", java_script_enabled=False) as page:
        await page.get_by_role("link", name="Traffic").click()
        await expect(page.locator("tbody")).to_contain_text("1.23 MB")


async def test_a_plan_is_pasted(tabs: Tabs) -> None:
    """A manifest that is pasted is planned; the text stays, and markup in it is text."""
    async with tabs.tab("/plan") as page:
        await page.get_by_label("Manifest").fill("<script>document.title='owned'</script>")
        await page.get_by_role("button", name="Plan").click()
        await expect(page.locator(".why")).to_contain_text("is not a Kubernetes object")
        await expect(page.get_by_label("Manifest")).to_have_value("<script>document.title='owned'</script>")
        assert "owned" not in await page.title()


GOLDEN = Path(__file__).parents[2] / "golden/console/layout.json"
PICTURES = GOLDEN.parent / "pictures"

DRAWN = 1024
"""The width at which pictures are taken."""

READ_LAYOUT = """() => [...document.querySelectorAll(
    "header, nav, main, h1, h2, div.not-ready, .problems, .filter, .wide, dl, .drawing, .pool, footer, .paste",
)].map((e) => {
  const box = e.getBoundingClientRect();
  const name = e.id || e.getAttribute("class") || e.tagName.toLowerCase();
  return [name, box.left < innerWidth / 4 ? "left" : box.left < innerWidth / 2 ? "middle" : "right",
          box.right <= innerWidth + 1 ? "inside" : "beside"];
})"""


async def test_the_drawing_of_a_node_fits_its_window(tabs: Tabs) -> None:
    """All five layers of a node are seen at 1,024 pixels; a narrower window scrolls them at full size."""
    async with tabs.tab("/nodes/node1", viewport={"width": 1024, "height": 900}) as page:
        figure = page.locator("figure.wide")
        await expect(figure.locator(".layer")).to_have_count(5)
        assert await figure.evaluate("(e) => e.scrollWidth <= e.clientWidth")
        await page.set_viewport_size({"width": 320, "height": 900})
        assert await figure.evaluate("(e) => e.scrollWidth > 1000")


LENGTHEN = """() => {
  const texts = document.createTreeWalker(document.getElementById("main"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const { currentNode: text } = texts;
    if (text.parentElement.matches(":not(time, small, svg *, thead *, label, button)")) text.data += "n".repeat(62);
  }
}"""
"""Make each name and message longer by a word of 62 characters; times are as long as they are."""

READ_TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll(".wide:has(table)")]
  .filter((e) => e.scrollWidth > e.clientWidth)
  .map((e) => `${e.getAttribute("aria-label") ?? "the page"}: ${e.scrollWidth} of ${e.clientWidth}`)"""
"""Return what scrolls sideways: the page, and its tables."""

READ_HIDDEN = """() => {
  const found = [];
  const isSeen = (box) => box.width > 0 && box.height > 0 && box.left >= 0 && box.right <= innerWidth;
  for (const table of document.querySelectorAll(".wide table")) {
    const heads = [...table.querySelectorAll("thead th")].map((e) => e.textContent);
    for (const row of table.querySelectorAll("tbody tr:not(.why)")) {
      const cells = [...row.children].slice(row.querySelectorAll("th").length);
      const names = cells.map((e) => e.dataset.label);
      if (names.join() !== heads.slice(heads.length - names.length).join()) found.push(`${names} under ${heads}`);
      for (const cell of cells) {
        const label = getComputedStyle(cell, "::before").content;
        if (!isSeen(cell.getBoundingClientRect()) || !label.includes(cell.dataset.label)) found.push(cell.outerHTML);
      }
    }
    for (const link of table.querySelectorAll("a")) {
      link.focus();
      if (document.activeElement === link && !isSeen(link.getBoundingClientRect())) found.push(link.outerHTML);
    }
  }
  return found;
}"""
"""Return cells that are not seen next to the name of their column, and links that take the focus and are not seen."""


async def test_no_page_of_a_phone_scrolls_sideways(tabs: Tabs) -> None:
    """At 320 pixels no page and no table is wider than its window, however long names are; nor is any on paper."""
    found: dict[str, list[str]] = {}
    async with tabs.tab(viewport={"width": NARROW, "height": 900}) as page:
        for path in PATHS:
            await opened(page, f"{path}?show=all")
            found[path] = await page.evaluate(f"(({LENGTHEN})(), ({READ_TOO_WIDE})())")
            await page.emulate_media(media="print")
            await page.set_viewport_size({"width": PAPER, "height": 900})
            found[f"{path} on paper"] = await page.evaluate(f"(({LENGTHEN})(), ({READ_TOO_WIDE})())")
            await page.emulate_media(media="screen")
            await page.set_viewport_size({"width": NARROW, "height": 900})
    assert not any(found.values()), json.dumps({path: wide for path, wide in found.items() if wide}, indent=1)


async def test_a_phone_shows_every_column(tabs: Tabs) -> None:
    """At 320 pixels each cell of a table is seen next to the name of its column, and so is each link with the focus."""
    found: dict[str, list[str]] = {}
    async with tabs.tab(viewport={"width": NARROW, "height": 900}) as page:
        for path in PATHS:
            await opened(page, f"{path}?show=all")
            found[path] = await page.evaluate(READ_HIDDEN)
    assert not any(found.values()), json.dumps(
        {path: cells for path, cells in found.items() if cells}, indent=1
    )


async def test_the_way_of_a_frame_fits_its_window(tabs: Tabs) -> None:
    """All hops of a trace are inside of the window: some next to each other, or one below the other on a phone."""
    async with tabs.tab("/lans/ours/green/trace/web/db") as page:
        hops = page.locator(".chain svg")
        await expect(hops).to_have_count(12)
        for width, in_a_row in ((NARROW, 1), (DRAWN, 4)):
            await page.set_viewport_size({"width": width, "height": 900})
            boxes = await hops.evaluate_all("(all) => all.map((e) => e.getBoundingClientRect().toJSON())")
            assert all(box["right"] <= width for box in boxes)
            assert sum(box["top"] == boxes[0]["top"] for box in boxes) == in_a_row


async def opened(page: Page, path: str) -> None:
    """Open a page, and wait for its parts that come later."""
    await page.goto(path)
    await expect(page.locator("[data-part]:not(:has(.remark))")).to_have_count(0)


async def layout(page: Page) -> list[str]:
    """What a page consists of, from top to bottom, and where each begins and ends."""
    return [" ".join(item) for item in await page.evaluate(READ_LAYOUT)]


async def test_pages_look_as_before(tabs: Tabs) -> None:
    """The parts of each page, their order and their edges are those of the golden file, at three widths.

    Nothing is outside of the window: what is wider scrolls in its own box, by keyboard too. Pictures of both themes are
    like the golden ones, but for the few cells that fonts and times change.
    LANLOOM_GOLDEN=rewrite writes them again.
    """
    layouts: dict[str, list[str]] = {}
    pictures: dict[Path, str] = {}
    async with tabs.tab() as page, await tabs.browser.new_page() as reader:
        for path in PATHS:
            await opened(page, path)
            for width in WIDTHS:
                await page.set_viewport_size({"width": width, "height": 900})
                layouts[f"{path} at {width}"] = await layout(page)
                assert await page.evaluate("document.documentElement.scrollWidth") <= width, path
                assert await page.locator(".wide:not([tabindex='0'])").count() == 0
                for theme in THEMES if width == DRAWN else ():
                    await page.emulate_media(color_scheme=theme)
                    pictures[golden_of(PICTURES, path, theme)] = await picture_of(page, reader)
    if os.environ.get("LANLOOM_GOLDEN") == "rewrite":
        GOLDEN.write_text(json.dumps(layouts, indent=1) + "\n")
        for file, picture in pictures.items():
            file.write_text(picture)
    assert layouts == json.loads(GOLDEN.read_text())
    found = {file.stem: differences(seen, file.read_text()) for file, seen in pictures.items()}
    assert not any(found.values()), "\n\n".join(f"{name}: {why}" for name, why in found.items() if why)
