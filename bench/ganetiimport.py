"""`lanloom ganeti import` of many networks, with the webhooks and the manager that every one of them passes.

API server, webhooks over HTTPS and manager are one process (`lanloom serve`); its CPU time counts.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.cost import Cost, Stopwatch, cpu_of
from bench.report import Row
from tests.features.ipam.ganeti.formats.clusters import config, network

LANLOOM = Path(sys.executable).with_name("lanloom")
FEW, MANY, LOOKED_AT = 500, 2_000, 20_000
MILLISECONDS, GROWTH, DRY_RUN = 8.0, 1.5, 5.0


def rows() -> Iterator[Row]:
    """Yield what a network costs, how that grows with their number, and what a look at many takes."""
    few, many = (_import(count).each(count) for count in (FEW, MANY))
    yield Row(
        name=f"import of {MANY:,} networks with webhooks: CPU time of the server for each",
        measured=many.cpu * 1000,
        limit=MILLISECONDS,
        unit="ms",
        note=f"{many.wall * 1000:.1f} ms by the clock; creation and the manager's writes, with their webhooks",
    )
    yield Row(
        name=f"the same, against each of {FEW:,}",
        measured=many.cpu / few.cpu,
        limit=GROWTH,
        unit="×",
        note=f"{few.cpu * 1000:.1f} ms",
    )
    with _served(LOOKED_AT) as (source, access, _):
        verified = _cost("verify", str(source))
        planned = _cost("import", str(source), *access, "--dry-run")
    yield Row(
        name=f"import --dry-run of {LOOKED_AT:,} networks, against verify of the file",
        measured=planned.cpu / verified.cpu,
        limit=DRY_RUN,
        unit="×",
        note=f"{planned.cpu:.1f} s against {verified.cpu:.1f} s of CPU time of the program",
    )


def _import(count: int) -> Cost:
    with _served(count) as (source, access, server):
        watch = Stopwatch(lambda: cpu_of(server))
        _cost("import", str(source), *access)
        return watch.cost()


def _cost(*words: str) -> Cost:
    """Run a command of `lanloom ganeti`, and return its own cost."""
    watch = Stopwatch(_cpu_of_children)
    subprocess.run([LANLOOM, "ganeti", *words], stdout=subprocess.DEVNULL, check=True)
    return watch.cost()


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def _served(count: int) -> Iterator[tuple[Path, list[str], int]]:
    """Yield a file with so many networks, the options for an empty cluster, and the process that serves it."""
    with TemporaryDirectory() as directory:
        root = Path(directory)
        places = [(number >> 10, number >> 2 & 255, number % 4 * 64) for number in range(count)]
        found = [network(f"net{at}", "10.{}.{}.{}/26".format(*place)) for at, place in enumerate(places)]
        source, kubeconfig = root / "config.data", root / "kubeconfig"
        source.write_text(json.dumps(config(found, [])))
        words = ["serve", "--data", str(root / "data.db"), "--kubeconfig", str(kubeconfig)]
        with subprocess.Popen([LANLOOM, *words], stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                if "ready" not in server.stdout.readline():
                    raise RuntimeError("lanloom serve ended before it served anything")
                yield source, ["-n", "default", "--kubeconfig", str(kubeconfig)], server.pid
            finally:
                server.terminate()
