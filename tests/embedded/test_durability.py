"""An acknowledged write survives the death of the server, whenever that comes."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random

import pytest

from lanloom.api.core import CONFIG_MAPS
from lanloom.kube.errors import KubeError
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from tests.harness.servers.forked import forked

KILLS = 30
WRITERS = 8


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[ForkServerProcess]:
    """A server on the data of a directory; at the end it is killed if it still lives."""
    words = ["serve", "--data", str(directory / "data"), "--kubeconfig", str(directory / "kubeconfig")]
    with forked(*words, "--no-manager") as (process, output):
        assert b"ready" in await asyncio.to_thread(os.read, output.fileno(), 4096)
        yield process


class Ledger:
    """What the server acknowledged."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.version = 0
        self._awaited = 0
        self._reached = asyncio.Event()

    def note(self, name: str, value: int, version: str) -> None:
        """One acknowledged write."""
        self.values[name] = value
        self.version = max(self.version, int(version))
        self._awaited -= 1
        if self._awaited <= 0:
            self._reached.set()

    async def more(self, writes: int) -> None:
        """Return when so many more writes were acknowledged."""
        self._awaited = writes
        self._reached.clear()
        await self._reached.wait()


async def write(client: HttpClient, name: str, ledger: Ledger) -> None:
    """Count up in one object until the server is gone."""
    value = ledger.values.get(name, 0)
    if not value:
        made = await client.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"n": "1"}}, "default")
        value = 1
        ledger.note(name, value, made.metadata.resource_version)
    while True:
        value += 1
        patched = await client.patch(CONFIG_MAPS, name, {"data": {"n": str(value)}}, "default")
        ledger.note(name, value, patched.metadata.resource_version)


async def check(client: HttpClient, ledger: Ledger) -> None:
    """Every acknowledged write is there, and versions did not go back."""
    listing = await client.list(CONFIG_MAPS, "default")
    found = {item.metadata.name: int(item.data["n"]) for item in listing.items}
    lost = {name: value for name, value in ledger.values.items() if found.get(name, 0) < value}
    assert not lost
    assert int(listing.resource_version) >= ledger.version
    # A write that was not acknowledged may have survived too: count on from what is there.
    ledger.values.update(found)
    ledger.version = int(listing.resource_version)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_acknowledged_writes_survive_kills(tmp_path: Path) -> None:
    """After each of thirty kills in the middle of writes, everything acknowledged is there, and versions go on."""
    rng = Random(4)
    ledger = Ledger()
    for _ in range(KILLS):
        async with serving(tmp_path) as process, HttpClient(load(str(tmp_path / "kubeconfig"))) as client:
            await check(client, ledger)
            writers = [asyncio.create_task(write(client, f"w{n}", ledger)) for n in range(WRITERS)]
            enough = asyncio.create_task(ledger.more(rng.randint(WRITERS + 1, 40 * WRITERS)))
            await asyncio.wait((enough, *writers), return_when=asyncio.FIRST_COMPLETED)
            process.kill()
            assert enough.done()
            for outcome in await asyncio.gather(*writers, return_exceptions=True):
                assert isinstance(outcome, KubeError)
    async with serving(tmp_path), HttpClient(load(str(tmp_path / "kubeconfig"))) as client:
        await check(client, ledger)
    assert sum(ledger.values.values()) > KILLS * WRITERS


@pytest.mark.slow
async def test_data_belongs_to_one_process(tmp_path: Path) -> None:
    """A second server on the same data says which file is in use and ends."""
    async with serving(tmp_path):
        words = ["serve", "--data", str(tmp_path / "data"), "--kubeconfig", str(tmp_path / "other")]
        with forked(*words, stream="stderr") as (second, errors):
            await asyncio.to_thread(second.join)
            assert second.exitcode == 1
            complaint = os.read(errors.fileno(), 4096).decode()
            assert f"{tmp_path / 'data'} is in use by another process" in complaint


@pytest.mark.slow
async def test_sigterm_ends_a_server_with_open_watches(tmp_path: Path) -> None:
    """SIGTERM ends the server with success within seconds, although a client watches."""
    async with serving(tmp_path) as process, HttpClient(load(str(tmp_path / "kubeconfig"))) as client:
        listing = await client.list(CONFIG_MAPS)
        watch = client.watch(CONFIG_MAPS, resource_version=listing.resource_version)
        following = asyncio.ensure_future(anext(watch, None))
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")
        assert (await following) is not None
        process.terminate()
        async with asyncio.timeout(60):
            await asyncio.to_thread(process.join)
        assert process.exitcode == 0
        await watch.aclose()
