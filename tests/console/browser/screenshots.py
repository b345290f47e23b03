"""Take pictures of every page of the filled cluster: `make screenshots`.

The PNGs are in build/screenshots, at three widths, in both themes: binary files are not committed. docs/console.svg is
the first page as text, with its style, which a browser draws with its own fonts and in its reader's theme.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from playwright.async_api import Page, async_playwright, expect

from tests.console.browser.tabs import PATHS, Tabs
from tests.console.filled import Filler
from tests.console.site import site

ROOT = Path(__file__).parents[3]
PICTURES, DRAWN = ROOT / "build/screenshots", ROOT / "docs/console.svg"
WIDTHS = (320, 1024, 3840)

SERIALISE = """() => {
  document.querySelector("footer").remove();
  document.querySelector(".filter").remove();
  const parts = [...document.querySelectorAll("body > header, main")];
  return [parts.map((part) => new XMLSerializer().serializeToString(part)).join(""),
          document.querySelector("main").getBoundingClientRect().bottom];
}"""


async def main() -> None:
    """Take all of them."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as full, tempfile.TemporaryDirectory() as bare:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            async with site(Path(bare)) as made:
                await _take_all(Tabs(browser, made), ("/", "/pools", "/plan"), "empty-")
            async with site(Path(full)) as made:
                await Filler(made.admin).fill()
                tabs = Tabs(browser, made)
                await _take_all(tabs, (*PATHS, "/pools/dual", "/login", "/nowhere"))
                async with tabs.tab(viewport={"width": 1100, "height": 600}) as page:
                    await _draw(page)
                await _take_away(tabs)
            await browser.close()
    print(f"written to {PICTURES.relative_to(ROOT)} and {DRAWN.relative_to(ROOT)}")


async def _take_all(tabs: Tabs, paths: Iterable[str], prefix: str = "") -> None:
    for width in WIDTHS:
        async with tabs.tab(viewport={"width": width, "height": 900}) as page:
            for path in paths:
                await page.goto(path)
                await _take(page, f"{prefix}{path.strip('/').replace('/', '-') or 'overview'}-{width}")


async def _take_away(tabs: Tabs) -> None:
    """Take a page whose API server has gone while it was open, and one that was asked for after that."""
    async with tabs.tab(viewport={"width": 1024, "height": 900}) as page:
        await expect(page.locator(".matrix")).to_be_visible()
        await tabs.site.gate.shut()
        await expect(page.get_by_role("status")).to_be_visible()
        await _take(page, "away-overview-1024")
        await page.goto("/lans")
        await _take(page, "away-lans-1024")


async def _take(page: Page, name: str) -> None:
    await page.emulate_media(color_scheme="light")
    await page.screenshot(path=PICTURES / f"{name}-light.png", full_page=True)
    await page.emulate_media(color_scheme="dark")
    await page.screenshot(path=PICTURES / f"{name}-dark.png", full_page=True)


async def _draw(page: Page) -> None:
    """Write the first page as SVG. The rules of `body` hold for its box, as a picture has no body."""
    body, height = await page.evaluate(SERIALISE)
    style = (files("lanloom.console") / "static/console.css").read_text()
    style = style.replace("\nbody {", "\n.body {").replace("body > header", ".body > header")
    DRAWN.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1100 {height + 1:.0f}" width="1100" '
        f'height="{height + 1:.0f}">\n<style><![CDATA[\n{style}]]></style>\n'
        f'<foreignObject width="100%" height="100%">'
        f'<div xmlns="http://www.w3.org/1999/xhtml" class="body">{body}</div></foreignObject>\n</svg>\n'
    )


if __name__ == "__main__":
    asyncio.run(main())
