"""A pod gets its interface: ADD by the shim, the agent and the kernel, against Go's `host-device` moving a link.

The calls come in pairs whose order changes: what else the machine does takes from both. Before each ADD of ours the
spoke is allocated, as kubelet does for each pod; ADD makes the link in the pod's namespace. Go's program finds a
macvtap that is there and down, and moves it. Allocate and DEL are outside of the figure. Go's link is in a namespace
that the agent does not watch: what Go does there is no work of the agent.
The agent is a process of its own with the real data plane, on this machine's kernel, in namespaces that end with it; it
needs root.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import convert

from bench.lan import underlay
from bench.lan_node import agent_plane, until
from bench.report import Row
from lanloom.features.lan.agent.cni import LanCni
from lanloom.features.lan.agent.ports import Device
from lanloom.node.namespaces import Namespace, NamespaceDirectory, make_namespace
from lanloom.node.netlink import changes, overlay, reader
from lanloom.runtime.cni.programs import install, program
from lanloom.runtime.cni.server import CniServer, CniService
from lanloom_lab.assets import debian_package, default_cache

INDEX = 299_999_999
ROUNDS = 150

ROOT = Path(__file__).parents[1]
VETH: dict[str, Any] = {"cniVersion": "1.0.0", "name": "lan", "type": "k8slanveth", "veth": "pod0s0"}
POD, MACHINE = Device("pod0s0", "veth"), Device("pod0s1", "macvtap")
MACVTAP: dict[str, Any] = {"cniVersion": "1.0.0", "name": "lan", "type": "macvtap", "deviceID": "pod0s1M0"}
GO: dict[str, Any] = {"cniVersion": "1.0.0", "name": "lan", "type": "host-device", "device": "mv0"}


def rows() -> Iterator[Row]:
    """ADD of a machine and of a pod, against the move by Go's program."""
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name, _host(Path(name)) as (names, other):
        directory = Path(name)
        programs = {"k8slanveth": directory / "bin/k8slanveth", "macvtap": directory / "bin/macvtap"}
        subprocess.run([ROOT / "scripts/shim", directory / "cni-shim"], check=True)
        for each, path in programs.items():
            install(path.parent, each, program(directory / "cni.sock", directory / "cni-shim"))
        plugins = debian_package(default_cache(), ["containernetworking-plugins"], print) / "usr/lib/cni"
        programs["host-device"] = plugins / "host-device"
        with other.socket() as sock:
            overlay.add_veth(sock, "mv1", "mv2", master=0, mtu=1450, peer_mac="")
            lower = reader.link(sock, name="mv1").index
            changes.set_up(sock, lower)
            overlay.add_macvtap(sock, other.fileno(), "mv0", lower=lower, index=INDEX, mtu=1450)
        # As Go's DEL leaves it: to move a link that is up takes longer.
        other.call(lambda: subprocess.run(["ip", "link", "set", "mv0", "down"], check=True))
        with _agent(directory) as allocate:
            found = {
                config["type"]: _paired(config, programs, names, other, partial(allocate, device))
                for config, device in ((MACVTAP, MACHINE), (VETH, POD))
            }
    for each, title in (("macvtap", "a machine's link made"), ("k8slanveth", "a pod's link made")):
        ours, theirs = found[each]
        yield Row(
            name=f"ADD by shim, agent and kernel, {title}, against Go's host-device moving a link",
            measured=statistics.median(ours) / statistics.median(theirs),
            limit=1,
            unit="times",
            note=f"medians of {ROUNDS} pairs {_ms(ours, 0.5)} against {_ms(theirs, 0.5)}, p99 {_ms(ours, 0.99)} "
            f"against {_ms(theirs, 0.99)}, best {_ms(ours, 0)} against {_ms(theirs, 0)}",
        )


def _ms(times: list[float], part: float) -> str:
    return f"{sorted(times)[int(len(times) * part)] * 1000:.1f} ms"


def _paired(
    config: dict[str, Any],
    programs: dict[str, Path],
    names: NamespaceDirectory,
    other: Namespace,
    allocate: Callable[[], None],
) -> tuple[list[float], list[float]]:
    """Seconds of our ADD and of Go's, in turns: A B, B A, A B, …"""
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(ROUNDS):
        allocate()
        turns = [(ours, config), (theirs, GO)]
        for times, each in reversed(turns) if number % 2 else turns:
            times.append(_round(programs[each["type"]], each, names, other))
    return ours, theirs


@contextmanager
def _host(directory: Path) -> Iterator[tuple[NamespaceDirectory, Namespace]]:
    """Namespaces of a host with an underlay and of a pod, and one for Go's link, which the agent does not watch."""
    (directory / "dev").mkdir()
    names = NamespaceDirectory(directory)
    with make_namespace("host") as host, make_namespace("pod") as pod, make_namespace("other") as other:
        names.bind("host", host)
        names.bind("pod", pod)
        try:
            underlay(host, "10.0.0.1/24")
            yield names, other
        finally:
            for name in ("pod", "bench0", "host"):
                names.remove(name)


def _round(path: Path, config: dict[str, Any], names: NamespaceDirectory, other: Namespace) -> float:
    """Return the seconds of ADD. Go's program is started in the namespace of its link, in which ours need not be."""
    inside = other if path.name == "host-device" else None
    seconds = _call(path, "ADD", config, names.path("pod"), inside)
    _call(path, "DEL", config, names.path("pod"), inside)
    return seconds


def _call(
    path: Path, command: str, config: dict[str, Any], netns: Path, inside: Namespace | None = None
) -> float:
    environment = {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": "c0ffee",
        "CNI_NETNS": str(netns),
        "CNI_IFNAME": "net1",
        "CNI_PATH": str(path.parent),
    }

    def call() -> float:
        begin = time.perf_counter()
        done = subprocess.run(
            [path], input=json.dumps(config).encode(), env=environment, capture_output=True, check=False
        )
        elapsed = time.perf_counter() - begin
        if done.returncode:
            raise RuntimeError(f"{path.name} {command}: {done.stdout.decode()}")
        return elapsed

    return inside.call(call) if inside is not None else call()


@contextmanager
def _agent(directory: Path) -> Iterator[Callable[[Device], None]]:
    """Provide an agent that runs; what is yielded has it allocate a device."""
    words = [sys.executable, "-m", "bench.lan_attach", str(directory)]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ, text=True, bufsize=1
    )

    def wait() -> None:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError("the agent has ended")

    def allocate(device: Device) -> None:
        assert process.stdin is not None
        print(device.spoke, device.mode, file=process.stdin)
        wait()

    try:
        wait()
        yield allocate
    finally:
        process.terminate()
        process.wait()


async def _serve(directory: Path) -> None:
    """Play the agent. Another spoke is kept allocated, so that the LAN stays between two rounds."""
    plane, _running = agent_plane(directory, NamespaceDirectory(directory), lans=1, prefix="pod")
    await until(lambda: bool(plane.spokes.devices()) and not plane.spokes.unready())
    await plane.spokes.allocate(Device("pod0s2", "veth"))
    ready = asyncio.Event()
    programs = dict.fromkeys(("macvtap", "k8slanveth"), CniService(answer=LanCni(plane.spokes).answer))
    serving = CniServer(directory / "cni.sock", programs, on_ready=ready.set)
    task = asyncio.create_task(serving.run())
    await ready.wait()
    print("ready", flush=True)
    requests = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(requests), sys.stdin
    )
    while words := (await requests.readline()).decode().split():
        await plane.spokes.allocate(convert((words[0], words[1]), Device))
        print("allocated", flush=True)
    task.cancel()


if __name__ == "__main__":
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run(_serve(Path(sys.argv[1])))
