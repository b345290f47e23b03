"""The console before a large cluster: 500 nodes with 20 networks each, 1,000 pools with a NIC each.

The API server (the embedded one), the console and the browser are processes of their own, as users have them. The
first paint of a page may cost a second of processor time, of the console and of the browser's tab together; a stream in
a churn may send 50 KB a second; 12,500 objects fit into 120 MB; a change is on the page within two seconds.
"""

import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import aiohttp
from playwright.async_api import Page, async_playwright, expect

from bench.cost import cpu_of, kept_waiting
from bench.report import Row
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from tests.console.large import COUNT, WIDTH, bodies, plant, report

CHURN_SECONDS, CHANGES_A_SECOND = 10, 20
PATHS = ("/", "/networks", "/networks/net/net-00", "/nodes/node-000", "/pools", "/pools/pool-0500")


def rows() -> Iterator[Row]:
    """Take all of them."""
    yield from asyncio.run(_measured())


async def _measured() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        await plant(directory / "data", bodies())
        serving = ("serve", "--data", f"{directory}/data", "--kubeconfig", f"{directory}/kubeconfig")
        async with _running(*serving, "--no-manager") as server:
            assert server.stdout is not None
            await server.stdout.readline()  # it is ready
            watching = ("console", "--kubeconfig", f"{directory}/kubeconfig", "--address", "127.0.0.1:0")
            async with _running(*watching) as process:
                return await _look(process, load(f"{directory}/kubeconfig"))


@asynccontextmanager
async def _running(*words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "lanloom",
        *words,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _look(process: asyncio.subprocess.Process, config: Any) -> list[Row]:
    assert process.stdout is not None
    link = (await process.stdout.readline()).decode().strip()
    async with async_playwright() as playwright, HttpClient(config) as admin:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = await browser.new_page()
        page.set_default_timeout(60_000)
        await page.goto(link)
        found = [await _painted(page, path, process.pid) for path in PATHS]
        found.append(await _fresh(page, admin, process.pid))
        found.append(await _churned(page, admin, link))
        found.append(_memory(process.pid))
        await browser.close()
    return found


async def _painted(page: Page, path: str, console: int) -> Row:
    """Return what a page costs until it is painted, when its objects are there."""
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})
    await page.goto(_at(page, "/login"))  # of the same site, and so of the same process
    before = await _task_seconds(session) + cpu_of(console)
    await page.goto(_at(page, path))
    await page.screenshot()
    cost = await _task_seconds(session) + cpu_of(console) - before
    await session.detach()
    size = len(await page.content())
    return Row(
        name=f"console: {path}, made and painted",
        measured=cost,
        limit=1.0,
        unit="s CPU",
        note=f"{size / 1000:.0f} KB; console and browser together",
    )


async def _task_seconds(session: Any) -> float:
    metrics = (await session.send("Performance.getMetrics"))["metrics"]
    return float(next(item["value"] for item in metrics if item["name"] == "TaskDuration"))


def _at(page: Page, path: str) -> str:
    return urljoin(page.url, path)


async def _report(admin: HttpClient, number: int, *, bad: bool) -> None:
    """Let the agent of some node report about one of its networks."""
    host, network = f"node-{number * 37 % COUNT:03}", f"cn-{number % WIDTH}"
    body = report(host, network, bad=bad)
    await admin.patch(
        CLUSTER_NETWORK_NODES,
        body["metadata"]["name"],
        {"status": body["status"]},
        subresource="status" if CLUSTER_NETWORK_NODES.status else "",
    )


async def _fresh(page: Page, admin: HttpClient, console: int) -> Row:
    """How long it takes until the open page shows what has been written, at the longest."""
    await page.goto(_at(page, "/networks/net/net-07"))
    title = page.locator(".not-ready .state").first
    longest = 0.0
    for bad in (True, False) * 3:
        await _report(admin, 7, bad=bad)
        written, waited = time.perf_counter(), kept_waiting(console)
        await (
            expect(title).to_be_visible(timeout=60_000) if bad else expect(title).to_be_hidden(timeout=60_000)
        )
        kept = kept_waiting(console) - waited
        longest = max(longest, time.perf_counter() - written - kept)
    return Row(
        name="console: a change of a node on the open page of a network, at the longest",
        measured=longest,
        limit=2.0,
        unit="s",
        note="six changes; without the time in which others had the console's processor",
    )


async def _churned(page: Page, admin: HttpClient, link: str) -> Row:
    """Return what a stream of the matrix sends while reports change all the time."""
    cookies = {str(item["name"]): str(item["value"]) for item in await page.context.cookies()}
    heard = 0

    async def hear() -> None:
        nonlocal heard
        async for part in answer.content.iter_any():
            heard += len(part)

    async with (
        aiohttp.ClientSession(cookies=cookies) as browser,
        browser.get(urljoin(link, "/live"), params={"page": "/networks"}) as answer,
    ):
        await answer.content.readuntil(b"\n\n")
        hearing, began = asyncio.create_task(hear()), time.perf_counter()
        for number in range(CHURN_SECONDS * CHANGES_A_SECOND):
            await _report(admin, number, bad=number % 2 == 0)
            await asyncio.sleep(max(0.0, began + number / CHANGES_A_SECOND - time.perf_counter()))
        spent = time.perf_counter() - began
        hearing.cancel()
    return Row(
        name=f"console: a stream while {CHANGES_A_SECOND} of 10,000 reports change each second",
        measured=heard / spent / 1000,
        limit=50,
        unit="KB/s",
    )


def _memory(process: int) -> Row:
    status = Path(f"/proc/{process}/status").read_text()
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return Row(
        name="console: peak of the process, which follows 12,500 objects",
        measured=int(peak) / 1024,
        limit=120,
        unit="MB",
    )
