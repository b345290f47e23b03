"""Debian's Chromium, driven by Playwright, before a console whose cluster has a bit of everything."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.console.browser.tabs import Tabs
from tests.console.filled import Filler
from tests.console.site import site

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>'\"&"
"""What others may write into messages and annotations."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Browser]:
    """A browser without any tab."""
    program = shutil.which("chromium")
    assert program, "Chromium is missing: run scripts/setup chromium"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tabs(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tabs]:
    """Tabs before the console of a cluster that has a bit of everything, hostile texts among it."""
    directory: Path = tmp_path_factory.mktemp("site")
    async with site(directory, shared=True) as made:
        await Filler(made.admin, HOSTILE).fill()
        yield Tabs(chromium, made)
