"""A cluster for tests that call commands in this process: an embedded server in a thread of its own.

A command runs its own event loop, which it can't inside of another one.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog
from click.testing import CliRunner, Result

from lanloom.api.ipam import NETWORKS, NICS
from lanloom.command import cli
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.kube.ports import Client
from tests.embedded.test_serve import serving

T = TypeVar("T")
Raw = dict[str, Any]


ATTEMPTS = 10
"""How often something is typed for which a shell is offered nothing: it gives up on a cluster after two seconds."""


def typing(typed: str) -> dict[str, str]:
    """The environment by which bash asks what a line could become."""
    last = str(len(typed.split()) - 1)
    return {"_LANLOOM_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": last}


class Cluster:
    """The running server and its administrator."""

    def __init__(self, kubeconfig: Path, *, managed: bool = False) -> None:
        self.kubeconfig = kubeconfig
        self._managed = managed

    def lanloom(
        self, *words: str, columns: int = 80, given: str = "", environment: Mapping[str, str] = {}
    ) -> Result:
        """Run a command with `given` as its input, on a terminal of 80 columns."""
        own = {"KUBECONFIG": str(self.kubeconfig), "COLUMNS": str(columns), **environment}
        done = CliRunner(env=own).invoke(cli, words, prog_name="lanloom", input=given)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    def offered(self, typed: str) -> list[str]:
        """What a shell is offered for a line; one that comes to nothing, for it gives up soon, is typed again."""
        for _ in range(ATTEMPTS):
            if found := self.lanloom(environment=typing(typed)).output.split():
                return found
        return []

    def do(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """What comes of calls to the server."""

        async def connected() -> T:
            async with HttpClient(load(str(self.kubeconfig))) as client:
                return await work(client)

        return asyncio.run(connected())

    def state(self) -> Raw:
        """Everything of address management, with versions and timestamps: what must be identical after a refusal.

        A manager writes statuses when it gets to it, so with one they are left out but for the addresses.
        """

        async def read(client: Client) -> Raw:
            networks, nics = await client.list(NETWORKS), await client.list(NICS)
            found = {"networks": msgspec.to_builtins(networks.items), "nics": msgspec.to_builtins(nics.items)}
            if self._managed:
                for item in (*found["networks"], *found["nics"]):
                    del item["metadata"]["resourceVersion"]
                    item["status"] = item.get("status", {}).get("ips")
            return found

        return self.do(read)

    def nic(
        self,
        name: str,
        owner: str,
        network: str,
        *ips: str,
        kind: str = "Instance",
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """A NIC that owns addresses, as a manager would have written."""

        async def create(client: Client) -> None:
            spec = {"owner": {"kind": kind, "name": owner}, "network": network, "ips": list(ips)}
            meta = {"name": name, "annotations": dict(annotations or {})}
            await client.create(NICS, {"metadata": meta, "spec": spec}, "default")
            status = {"network": network, "ips": list(ips)}
            await client.patch(NICS, name, {"status": status}, "default", subresource="status")

        self.do(create)

    def clear(self) -> None:
        """Take every network and NIC away."""

        async def delete(client: Client) -> None:
            for nic in (await client.list(NICS)).items:
                await client.delete(NICS, nic.metadata.name, nic.metadata.namespace)
            for network in (await client.list(NETWORKS)).items:
                await client.delete(NETWORKS, network.metadata.name)

        self.do(delete)


async def nothing(_client: Client) -> None:
    """What runs next to a server that has no other process."""


@contextmanager
def served(
    directory: Path,
    *,
    manager: bool = False,
    beside: Callable[[Client], Awaitable[None]] = nothing,
    **settings: object,
) -> Iterator[Cluster]:
    """The server, with a manager or without, until the block ends. It shares the commands' output, and so is silent.

    `beside` runs with it, and must not end it; `settings` are those of `ServeSettings`.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    ready, loop = threading.Event(), asyncio.new_event_loop()
    done: asyncio.Future[None] = loop.create_future()

    async def run() -> None:
        async with serving(directory, manager=manager, **settings) as config, HttpClient(config) as client:
            others = asyncio.ensure_future(beside(client))
            ready.set()
            await done
            others.cancel()

    def live() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(run())

    thread = threading.Thread(target=live)
    thread.start()
    try:
        assert ready.wait(120)
        yield Cluster(directory / "kubeconfig", managed=manager)
    finally:
        loop.call_soon_threadsafe(done.set_result, None)
        thread.join(120)
        loop.close()
        structlog.reset_defaults()
