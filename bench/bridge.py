"""What a node pays for an isolated network: the real `lanloom dummy bridge`, in a network namespace of its own.

Next to it the node has 500 pairs of links, as one with many pods, of which some change all the time.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.cost import Cost, cpu_of
from bench.processes import printed
from bench.report import Row

RESIDENT_MB = 25
READY_MILLISECONDS = 500
HEALED_MILLISECONDS = 50
"""Of the process's CPU."""

BUSY_PERCENT = 3.0
PAIRS = 500
BUSY_SECONDS = 5.0
ROUNDS = 5
"""The best round counts: whatever else the machine does can only take away from a figure."""

_BRIDGE, _PATIENCE = "dummy-br", 120.0
_CALM_SECONDS = 0.3
"""A process that has not used CPU for so long has done what there was to do."""


class Figures(msgspec.Struct, frozen=True):
    """Bytes resident and private to the process; what it costs to be ready and to heal.

    Of a busy node there is the share of a core, and how many changes a second there were.
    """

    resident: int
    private: int
    ready: Cost
    healed: Cost
    busy: float
    changes: float


def rows() -> Iterator[Row]:
    """Memory, start, healing, and the price of a busy node."""
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    words = ["unshare", *rights, "--net", sys.executable, "-m", "bench.bridge"]
    found = msgspec.json.decode(printed(words, seconds=900), type=Figures)
    yield Row(
        name="lanloom dummy bridge, resident",
        measured=found.resident / 1e6,
        limit=RESIDENT_MB,
        unit="MB",
        note=f"{found.private / 1e6:.0f} MB for each one more",
    )
    yield Row(
        name="lanloom dummy bridge, from its start to ready: CPU time",
        measured=found.ready.cpu * 1000,
        limit=READY_MILLISECONDS,
        unit="ms",
        note=f"best of {ROUNDS}; {found.ready.wall * 1000:.0f} ms by the clock",
    )
    yield Row(
        name="a bridge deleted by hand is made again: CPU time",
        measured=found.healed.cpu * 1000,
        limit=HEALED_MILLISECONDS,
        unit="ms",
        note=f"best of {ROUNDS}; there again after {found.healed.wall * 1000:.0f} ms",
    )
    yield Row(
        name="lanloom dummy bridge beside 1,000 links that change, of a core",
        measured=found.busy * 100,
        limit=BUSY_PERCENT,
        unit="%",
        note=f"{found.changes:.0f} changes a second",
    )


def measure() -> Figures:
    """One process after another; the last one stays for the busy node."""
    starts, heals = [], []
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
        for number in range(ROUNDS):
            with _keeping(Path(name) / f"ready{number}") as (pid, start):
                starts.append(start)
                heals.append(_healed(pid))
                resident, private = _memory(pid)
                if number == ROUNDS - 1:
                    busy, changes = _busy(pid)
    return Figures(resident, private, min(starts), min(heals), busy, changes)


@contextmanager
def _keeping(ready: Path) -> Iterator[tuple[int, Cost]]:
    """Provide a process that keeps the bridge, and what its start cost."""
    _ip(f"link delete {_BRIDGE}")
    words = ["--name", _BRIDGE, "--owner", "bench", "--state", "present", "--ready-file", str(ready)]
    command = [sys.executable, "-m", "lanloom", "dummy", "bridge", *words]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _until(ready.exists)
        wall = time.monotonic() - began
        yield process.pid, Cost(_rested(process.pid), wall)
    finally:
        process.terminate()
        process.wait()


def _healed(pid: int) -> Cost:
    before, began = cpu_of(pid), time.monotonic()
    _ip(f"link delete {_BRIDGE}")
    _until(Path(f"/proc/self/net/dev_snmp6/{_BRIDGE}").exists)
    wall = time.monotonic() - began
    return Cost(_rested(pid) - before, wall)


def _rested(pid: int) -> float:
    """CPU seconds of a process once it needs no more."""
    used, since = cpu_of(pid), time.monotonic()
    while time.monotonic() < since + _CALM_SECONDS:
        time.sleep(0.01)
        if (now := cpu_of(pid)) != used:
            used, since = now, time.monotonic()
    return used


def _busy(pid: int) -> tuple[float, float]:
    """CPU seconds a second while a link changes every 20 ms, as far as the machine gets to it; changes a second."""
    pairs = range(PAIRS)
    _batch(f"link add a{number} type veth peer name b{number}" for number in pairs)
    _rested(pid)
    began, before = time.monotonic(), cpu_of(pid)
    number = 0
    while time.monotonic() - began < BUSY_SECONDS:
        _ip(f"link set a{number % PAIRS} mtu {1400 + number // PAIRS % 2}")
        number += 1
        time.sleep(0.02)
    used, seconds = cpu_of(pid) - before, time.monotonic() - began
    return used / seconds, number / seconds


def _memory(pid: int) -> tuple[int, int]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {name: int(rest.split()[0]) * 1024 for name, rest in (line.split(":", 1) for line in lines)}
    return sizes["Rss"], sizes["Private_Dirty"] + sizes["Private_Clean"]


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=False, stderr=subprocess.DEVNULL)


def _batch(lines: Iterator[str]) -> None:
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("the bridge is not kept")
        time.sleep(0.001)


if __name__ == "__main__":
    print(json.dumps(msgspec.to_builtins(measure())))
