"""How much memory `lanloom agent` takes on a node: the real program, following a real `lanloom serve`.

With all features, and with one alone: that of VLANs, which takes most because of D-Bus.

Both run in a network namespace of their own, because an agent takes care of all links that it finds.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.agent import NETWORKS, VLANS, quiet_cluster
from bench.processes import printed
from bench.report import Row
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from tests.features.vlan.cluster import create

ALL_MB, ONE_MB = 46, 40
ONE = "vlan"
STEADY_SECONDS = 3.0
PATIENCE_SECONDS = 300.0


class Memory(msgspec.Struct, frozen=True):
    """Of a process, in bytes: resident now, and the most that ever was."""

    resident: int
    peak: int


def rows() -> Iterator[Row]:
    """Yield the idle agent's memory."""
    for features, limit, which in ((), ALL_MB, ""), ((ONE,), ONE_MB, f" with `--feature {ONE}`"):
        memory = _measured(features)
        yield Row(
            name=f"lanloom agent{which}, resident when idle",
            measured=memory.resident / 1e6,
            limit=limit,
            unit="MB",
            note=f"most ever {memory.peak / 1e6:.0f} MB; follows {NETWORKS * VLANS} NADs",
        )


def _measured(features: Sequence[str]) -> Memory:
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    words = ["unshare", *rights, "--net", sys.executable, "-m", "bench.memory", *features]
    return msgspec.json.decode(printed(words, 2 * PATIENCE_SECONDS), type=Memory)


def measure(features: Sequence[str]) -> Memory:
    """Start both programs, and wait until the agent's memory is steady."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
        directory = Path(name)
        kubeconfig = str(directory / "kubeconfig")
        served = ["serve", "--data", str(directory / "data"), "--kubeconfig", kubeconfig, "--no-manager"]
        with _started(*served) as server:
            assert server.stdout is not None
            server.stdout.readline()
            asyncio.run(_fill(kubeconfig))
            profiles = directory / "profiles"
            profiles.mkdir()
            words = ["--kubeconfig", kubeconfig, "--node", "bench", "--profiles", str(profiles)]
            words += ["--cni-socket", str(directory / "cni.sock")]
            words += [f"--feature={name}" for name in features]
            with _started("agent", *words) as agent:
                return _steady(agent)


@contextmanager
def _started(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    # No NetworkManager: an agent of a benchmark must not speak to this machine's own.
    environment = os.environ | {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent"}
    process = subprocess.Popen(
        [sys.executable, "-m", "lanloom", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def _fill(kubeconfig: str) -> None:
    async with HttpClient(load(kubeconfig)) as client:
        await create(client, quiet_cluster())


def _steady(process: subprocess.Popen[bytes]) -> Memory:
    """Return the memory once it has not changed for a while, and at the latest when patience ends."""
    started = changed = time.monotonic()
    memory = _memory(process.pid)
    while time.monotonic() < min(changed + STEADY_SECONDS, started + PATIENCE_SECONDS):
        time.sleep(0.05)
        if process.poll() is not None:
            raise RuntimeError(f"the agent ended with exit status {process.returncode}")
        if (now := _memory(process.pid)) != memory:
            memory, changed = now, time.monotonic()
    return memory


def _memory(pid: int) -> Memory:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return Memory(*(int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM")))


if __name__ == "__main__":
    print(json.dumps(msgspec.to_builtins(measure(sys.argv[1:]))))
