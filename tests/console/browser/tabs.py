"""Tabs of a browser before a console."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.console.site import Site

WAIT = 60_000.0
"""Milliseconds that a condition may take; a test fails by what is there, and not by the clock."""

expect.set_options(timeout=WAIT)

Theme = Literal["light", "dark"]

PATHS = (
    "/",
    "/nodes",
    "/nodes/node1",
    "/nodes/node3",
    "/cluster-networks",
    "/cluster-networks/storage",
    "/networks",
    "/networks/ours/backup",
    "/pools",
    "/pools/office",
    "/isolated",
    "/isolated/leaving",
    "/lans",
    "/lans/ours/green",
    "/lans/ours/green/counters",
    "/lans/ours/green/trace/web/db",
    "/machines",
    "/machines/ours/db",
    "/changes",
    "/plan",
    "/networks/ours/backup/plan",
)
"""A page of each kind, in the filled cluster."""


class Tabs:
    """Opens tabs. A `tenant` may read the namespace `ours` alone."""

    def __init__(self, browser: Browser, site: Site) -> None:
        self.browser = browser
        self.site = site

    @asynccontextmanager
    async def context(self, *, tenant: str = "", **options: Any) -> AsyncIterator[BrowserContext]:
        """A browser's profile that has logged in, by a token or else by the administrator's link."""
        context = await self.browser.new_context(
            base_url=self.site.address, reduced_motion="reduce", **options
        )
        context.set_default_timeout(WAIT)
        try:
            page = await context.new_page()
            if tenant:
                await page.goto("/login")
                await page.get_by_label("Token").fill(tenant)
                await page.get_by_role("button", name="Log in").click()
            else:
                await page.goto(f"/login?once={self.site.sessions.link(self.site.config)}")
            await expect(page.get_by_role("navigation")).to_be_visible()
            await page.close()
            yield context
        finally:
            await context.close()

    @asynccontextmanager
    async def tab(self, path: str = "/", *, tenant: str = "", **options: Any) -> AsyncIterator[Page]:
        """A tab with a page, and what went wrong in it."""
        async with self.context(tenant=tenant, **options) as context:
            page = await context.new_page()
            faults: list[str] = []
            page.on("pageerror", lambda error: faults.append(str(error)))
            await page.goto(path)
            yield page
            assert not faults, faults
