"""`lanloom ganeti import` of many networks, with the webhooks and the manager that every one of them passes.

API server, webhooks over HTTPS and manager are one process (`lanloom serve`); its CPU time counts.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.cost import Cost, Stopwatch, cpu_of
from bench.report import Row
from tests.features.ipam.ganeti.formats.clusters import config, network

LANLOOM = Path(sys.executable).with_name("lanloom")
FEW, MANY = 500, 2_000
MILLISECONDS, GROWTH = 8.0, 1.5


def rows() -> Iterator[Row]:
    """Yield what a network costs, and how that grows with their number."""
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


def _import(count: int) -> Cost:
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
                watch = Stopwatch(lambda: cpu_of(server.pid))
                words = ["ganeti", "import", str(source), "-n", "default", "--kubeconfig", str(kubeconfig)]
                subprocess.run([LANLOOM, *words], stdout=subprocess.DEVNULL, check=True)
                return watch.cost()
            finally:
                server.terminate()
