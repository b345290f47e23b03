"""What a CNI call of LANs costs besides the work: from the start of the program to the agent's answer and its end.

The unit is the start and end of a static program that does nothing, in turns with the others. The agent is a process of
its own, with a data plane that builds nothing.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.report import Row
from lanloom.features.lan.agent.cni import LanCni
from lanloom.runtime.cni.programs import install, program
from lanloom.runtime.cni.server import CniServer, CniService
from lanloom_lab.assets import debian_package, default_cache
from tests.fakes.spokes import FakeSpokes

ROOT = Path(__file__).parents[1]
ROUNDS = 60
"""The best one counts: what else the machine does can only take away from a figure."""

CONFIG = {"cniVersion": "1.0.0", "name": "lan", "type": "macvtap", "deviceID": "redM0"}
ENVIRONMENT = {
    "CNI_CONTAINERID": "c0ffee",
    "CNI_NETNS": "/run/netns/pod",
    "CNI_IFNAME": "net1",
    "CNI_PATH": "/opt/cni/bin",
}
SHIM_LIMIT = 3.0


def rows() -> Iterator[Row]:
    """Yield the shim against a program that does nothing."""
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
        directory = Path(name)
        programs = _programs(directory)
        plugins = debian_package(default_cache(), ["containernetworking-plugins"], print) / "usr/lib/cni"
        with _agent(directory):
            times: dict[str, list[float]] = {key: [] for key in (*programs, "VERSION", "Go")}
            for _ in range(ROUNDS):
                for key, path in programs.items():
                    times[key].append(_call(path, "ADD"))
                times["VERSION"].append(_call(programs["shim"], "VERSION"))
                times["Go"].append(_call(plugins / "host-device", "VERSION"))
    unit = min(times["nothing"])
    best = {key: min(each) for key, each in times.items()}
    note = f"{best['shim'] * 1000:.2f} ms; VERSION, which asks nobody, {best['VERSION'] / unit:.2f} times"
    yield Row(
        name="ADD by the shim, to the agent and back, against a program that does nothing",
        measured=best["shim"] / unit,
        limit=SHIM_LIMIT,
        unit="times",
        note=note,
    )
    yield Row(
        name="ADD by the shim, to the agent and back, against Go's host-device telling its versions",
        measured=best["shim"] / best["Go"],
        limit=1,
        unit="times",
        note=f"{best['Go'] * 1000:.2f} ms, in which that plugin does not move anything yet",
    )


def _programs(directory: Path) -> dict[str, Path]:
    shim, socket = directory / "cni-shim", directory / "cni.sock"
    subprocess.run([ROOT / "scripts/shim", shim], check=True)
    install(directory / "shim", "macvtap", program(socket, shim))
    source = directory / "nothing.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-Os", "-static", "-s", "-o", directory / "nothing", source], check=True)
    return {"nothing": directory / "nothing", "shim": directory / "shim/macvtap"}


def _call(path: Path, command: str) -> float:
    text = json.dumps(CONFIG).encode()
    begin = time.perf_counter()
    done = subprocess.run(
        [path],
        input=text,
        env={**ENVIRONMENT, "CNI_COMMAND": command},
        capture_output=True,
        close_fds=False,
        check=True,
    )
    elapsed = time.perf_counter() - begin
    assert path.name == "nothing" or json.loads(done.stdout)["cniVersion"], done.stdout
    return elapsed


@contextmanager
def _agent(directory: Path) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.lan_cni", directory], stdout=subprocess.PIPE, env=os.environ
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.terminate()
        process.wait()


async def _serve(directory: Path) -> None:
    programs = {"macvtap": CniService(answer=LanCni(FakeSpokes(["red"])).answer)}
    ready = asyncio.Event()
    task = asyncio.create_task(CniServer(directory / "cni.sock", programs, on_ready=ready.set).run())
    await ready.wait()
    print("ready", flush=True)
    await task


if __name__ == "__main__":
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run(_serve(Path(sys.argv[1])))
