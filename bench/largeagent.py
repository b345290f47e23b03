"""A real agent of a large cluster on a host in memory, which begins when it is let, and notes its requests.

`python -m bench.largeagent KUBECONFIG NODE DIRECTORY` is all of an agent but its NetworkManager and its NICs: without a
NetworkManager an agent is never ready. It prints `made` when its modules are loaded, begins at the first line of its
input, and then prints a line of JSON for each request and one when it is ready.
"""

import asyncio
import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from bench.largecluster import UPLINKS
from lanloom.features.lan.agentoptions import LanAgentSettings
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.processes.agent import run_agent
from lanloom.processes.metrics import AgentMetrics
from lanloom.runtime.cni.programs import CniSettings
from lanloom.runtime.logs import configure_logs
from tests.fakes import FakeHost, FakeSwitch

_LOOK_SECONDS = 0.1


class Asked(NamedTuple):
    """A request of an agent; `began` and `ended` (when the answer began) are of the monotonic clock, in seconds."""

    began: float
    ended: float
    verb: str
    resource: str
    code: str


def _note_request(verb: str, resource: str, code: str, seconds: float) -> None:
    now = time.monotonic()
    print(json.dumps(Asked(now - seconds, now, verb, resource, code)), flush=True)


async def _note_readiness(metrics: AgentMetrics) -> None:
    while True:
        if not any(metrics.missing()):
            print(json.dumps(time.monotonic()), flush=True)
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def run(kubeconfig: str, name: str, directory: Path) -> None:
    """Run the agent until this process ends."""
    nics = tuple(f"eth{number}" for number in range(UPLINKS + 1))
    fake = FakeHost(name, nics, switch=FakeSwitch(), now=time.time)
    metrics = AgentMetrics()
    cni = CniSettings(socket=directory / "cni.sock", state=directory / "ipam.d")
    settings = {"lan": LanAgentSettings(device_plugins=directory / "plugins")}
    async with HttpClient(load(kubeconfig), observe=_note_request) as client, asyncio.TaskGroup() as group:
        group.create_task(_note_readiness(metrics))
        group.create_task(
            run_agent(
                client,
                fake.host,
                cluster="lanloom",
                now=time.time,
                rng=random.Random(),
                metrics=metrics,
                cni=cni,
                settings=settings,
            )
        )


def main(kubeconfig: str, name: str, directory: Path) -> None:
    """Wait for the start, and run until the process that began this one has ended."""
    configure_logs("warning")
    (directory / "plugins").mkdir(parents=True)
    print("made", flush=True)
    if sys.stdin.readline():
        threading.Thread(target=_end_with_input, daemon=True).start()
        asyncio.run(run(kubeconfig, name, directory))


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
