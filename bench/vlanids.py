"""Every VLAN id onto a bridge: our port against iproute2, on a kernel whose bridges filter VLANs, in one run.

The kernel is the lab's (see `tests.harness.kernel`); this module runs in it again as a program that prints figures.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from bench.report import Row
from lanloom.node.netlink import NetlinkLinks
from lanloom.node.steps import AddVlans, EnsureBridge, RemoveVlans
from lanloom.node.vlanids import VlanIds
from tests.harness.kernel import run_program_inside
from tests.harness.namespaces import Entering, namespace

ROUNDS = 10
EVERY: VlanIds = ((2, 4094),)
EVERY_SECOND: VlanIds = tuple((vid, vid) for vid in range(2, 4095, 2))
NAMESPACE = "bench"


class Seconds(Struct, frozen=True, kw_only=True):
    """The best of some rounds, each in seconds.

    `port` and `range_call` put 4,093 ids on a bridge, `batch` does it line by line; `start` is what a `bridge` costs
    that does nothing. `fragmented` and `fragmented_batch` put every second id on it.
    """

    port: float
    range_call: float
    start: float
    batch: float
    fragmented: float
    fragmented_batch: float


def rows() -> Iterator[Row]:
    """Our port against one range call, and against a batch of single ids."""
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as scratch:
        output = run_program_inside(Path(scratch), "-m", "bench.vlanids")
    seconds = Seconds(**json.loads(output.splitlines()[-1]))
    alone = seconds.range_call - seconds.start
    yield Row(
        name="4,093 VLAN ids onto a bridge, against one range call of `bridge`",
        measured=seconds.port / seconds.range_call,
        limit=1.2,
        unit="×",
        note=f"{_ms(seconds.port)} against {_ms(seconds.range_call)}, of which {_ms(seconds.start)} are its start"
        f"{f' ({seconds.port / alone:.2f} × without it)' if alone > 0 else ''}; best of {ROUNDS}",
    )
    yield Row(
        name="4,093 VLAN ids onto a bridge: how much faster than `bridge -batch`",
        measured=seconds.batch / seconds.port,
        limit=20,
        unit="×",
        at_least=True,
        note=f"{_ms(seconds.port)} against {_ms(seconds.batch)} for a line per id",
    )
    yield Row(
        name="every second VLAN id onto a bridge: how much faster than `bridge -batch`",
        measured=seconds.fragmented_batch / seconds.fragmented,
        limit=1,
        unit="×",
        at_least=True,
        note=f"{len(EVERY_SECOND):,} ids that make no range: {_ms(seconds.fragmented)} against "
        f"{_ms(seconds.fragmented_batch)}",
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def measure() -> Seconds:
    """Measures, inside; each round begins with a bridge that has no ids."""
    with namespace(NAMESPACE) as path:
        links = NetlinkLinks(Entering(path))
        asyncio.run(links.apply((EnsureBridge(name="c-br", mtu=1500),)))

        def of_port(ids: VlanIds) -> Callable[[], None]:
            return lambda: asyncio.run(links.apply((AddVlans(link="c-br", ids=ids, self_=True),)))

        def best(work: Callable[[], None]) -> float:
            return min(_timed(links, work) for _ in range(ROUNDS))

        single, fragmented = _lines(tuple((vid, vid) for vid in range(2, 4095))), _lines(EVERY_SECOND)
        return Seconds(
            port=best(of_port(EVERY)),
            range_call=best(lambda: _bridge("vlan", "add", "vid", "2-4094", "dev", "c-br", "self")),
            start=best(lambda: _bridge("-batch", "/dev/null")),
            batch=_timed(links, lambda: _bridge("-batch", single)),
            fragmented=best(of_port(EVERY_SECOND)),
            fragmented_batch=_timed(links, lambda: _bridge("-batch", fragmented)),
        )


def _lines(ids: VlanIds) -> str:
    path = Path(tempfile.gettempdir()) / f"{len(ids)}-ids"
    path.write_text("".join(f"vlan add vid {first} dev c-br self\n" for first, _ in ids))
    return str(path)


def _timed(links: NetlinkLinks, work: Callable[[], None]) -> float:
    asyncio.run(links.apply((RemoveVlans(link="c-br", ids=EVERY, self_=True),)))
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _bridge(*words: str) -> None:
    subprocess.run(["bridge", "-n", NAMESPACE, *words], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    result = measure()
    sys.stdout.write(json.dumps({name: getattr(result, name) for name in result.__struct_fields__}) + "\n")
