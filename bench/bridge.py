"""What a node pays for an isolated network: the real `lanloom dummy bridge`, in a network namespace of its own.

Beside it the node has 500 pairs of links, as one with many pods, of which some change all the time.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from bench.report import Row

RESIDENT_MB = 25
READY_SECONDS = 0.5
HEALED_SECONDS = 1.0
BUSY_PERCENT = 3.0
PAIRS = 500
BUSY_SECONDS = 5.0
ROUNDS = 5
"""The best round counts: whatever else the machine does can only take away from a figure."""

_BRIDGE, _PATIENCE = "dummy-br", 30.0


class Figures(msgspec.Struct, frozen=True):
    """Bytes resident and private to the process; seconds to be ready and to heal; share of a core on a busy node."""

    resident: int
    private: int
    ready: float
    healed: float
    busy: float


def rows() -> Iterator[Row]:
    """Memory, start, healing, and the price of a busy node."""
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    words = ["unshare", *rights, "--net", sys.executable, "-m", "bench.bridge"]
    answer = subprocess.run(words, check=True, stdout=subprocess.PIPE, timeout=300).stdout
    found = msgspec.json.decode(answer, type=Figures)
    yield Row(
        name="lanloom dummy bridge, resident",
        measured=found.resident / 1e6,
        limit=RESIDENT_MB,
        unit="MB",
        note=f"{found.private / 1e6:.0f} MB for each one more",
    )
    yield Row(
        name="lanloom dummy bridge, from its start to ready",
        measured=found.ready,
        limit=READY_SECONDS,
        unit="s",
    )
    yield Row(
        name="a bridge deleted by hand is there again after",
        measured=found.healed,
        limit=HEALED_SECONDS,
        unit="s",
    )
    yield Row(
        name="lanloom dummy bridge beside 1,000 links that change, of a core",
        measured=found.busy * 100,
        limit=BUSY_PERCENT,
        unit="%",
    )


def measure() -> Figures:
    """One process after another; the last one stays for the busy node."""
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
        ready = Path(name) / "ready"
        starts, heals = [], []
        for _ in range(ROUNDS):
            process, seconds = _started(ready)
            starts.append(seconds)
            time.sleep(0.5)
            heals.append(_healed())
            resident, private = _memory(process.pid)
            if len(starts) < ROUNDS:
                process.terminate()
                process.wait()
        busy = _busy(process.pid)
        process.terminate()
        process.wait()
    return Figures(resident, private, min(starts), min(heals), busy)


def _started(ready: Path) -> tuple[subprocess.Popen[bytes], float]:
    _ip(f"link delete {_BRIDGE}")
    words = ["--name", _BRIDGE, "--owner", "bench", "--state", "present", "--ready-file", str(ready)]
    command = [sys.executable, "-m", "lanloom.cli", "dummy", "bridge", *words]
    began = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _until(ready.exists)
    return process, time.monotonic() - began


def _healed() -> float:
    began = time.monotonic()
    _ip(f"link delete {_BRIDGE}")
    _until(Path(f"/proc/self/net/dev_snmp6/{_BRIDGE}").exists)
    return time.monotonic() - began


def _busy(pid: int) -> float:
    """CPU seconds a second while a link changes every 20 ms."""
    pairs = range(PAIRS)
    _batch(f"link add a{number} type veth peer name b{number}" for number in pairs)
    time.sleep(1.0)
    began, before = time.monotonic(), _cpu(pid)
    number = 0
    while time.monotonic() - began < BUSY_SECONDS:
        _ip(f"link set a{number % PAIRS} mtu {1400 + number // PAIRS % 2}")
        number += 1
        time.sleep(0.02)
    return (_cpu(pid) - before) / (time.monotonic() - began)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


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
