"""Helm itself for tests of the chart: its own Go library, version 4, in a process of its own.

Debian has no package of helm. The library is a wheel on PyPI that is pinned by its hash in requirements/helm.txt, and
kept in the cache. Each call is a new process: Go's runtime takes over the signals of the one that loads it.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from lanloom_lab.assets import Progress, default_cache, publish, run

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy/chart/lanloom"
PINS = ROOT / "requirements/helm.txt"
VERSION = "4.2.3"
REMEDY = "Check the network and pip's configuration, then try again."

Raw = dict[str, Any]

PROGRAM = """
import json, sys
order = json.load(sys.stdin)
sys.path.insert(0, order["library"])
import helm_python as helm
chart = order.pop("chart", "")
if order["do"] == "lint":
    found = helm.lint(chart, order["values"], strict=True)
elif order["do"] == "render":
    with helm.Chart.load(chart) as loaded:
        found = loaded.render(order["values"], name="lanloom", namespace=order["namespace"])
else:
    with helm.Config(kubeconfig_path=order["kubeconfig"], namespace=order["namespace"]) as config:
        words = (chart, "lanloom", order["values"]) if chart else ("lanloom",)
        found = getattr(config, order["do"])(*words, **order["options"])
print(json.dumps(found))
"""


class HelmFailed(Exception):
    """Helm refused; the text is its own."""


class Helm:
    """Calls helm; `cluster` is the kubeconfig for what changes a cluster."""

    def __init__(self, library: Path, cluster: Path | None = None, namespace: str = "default") -> None:
        self._library = library
        self._cluster = cluster
        self._namespace = namespace

    def lint(self, values: Raw, chart: Path = CHART) -> Raw:
        """The report of `helm lint --strict`."""
        return dict(self._call("lint", chart, values))

    def render(self, values: Raw) -> dict[str, str]:
        """Name of each template → its text, as `helm template` has it."""
        return {
            name.removeprefix("lanloom/templates/"): text
            for name, text in self._call("render", CHART, values).items()
        }

    def install(self, values: Raw) -> None:
        """`helm install --create-namespace lanloom CHART`."""
        self._call("install", CHART, values, create_namespace=True)

    def upgrade(self, values: Raw, chart: Path = CHART) -> None:
        """`helm upgrade lanloom CHART`."""
        self._call("upgrade", chart, values)

    def rollback(self) -> None:
        """`helm rollback lanloom`, to the revision before."""
        self._call("rollback")

    def uninstall(self) -> None:
        """`helm uninstall lanloom`."""
        self._call("uninstall")

    def _call(self, name: str, chart: Path | None = None, values: Raw | None = None, **options: Any) -> Any:
        order: Raw = {"do": name, "library": str(self._library), "options": options}
        order |= {"values": values, "namespace": self._namespace}
        order |= {"kubeconfig": str(self._cluster)} if self._cluster else {}
        order |= {"chart": str(chart)} if chart else {}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise HelmFailed(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])


def helm_library(cache: Path, progress: Progress) -> Path:
    """Return the directory of the library; fetch it if need be."""
    return publish(cache / f"helm-{VERSION}", lambda partial: _make(partial, progress), progress)


def _make(partial: Path, progress: Progress) -> None:
    progress(f"fetching helm {VERSION} (once; 75 MB)")
    words = ("install", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", "--no-cache-dir")
    run([sys.executable, "-m", "pip", *words, "--target", partial, "-r", PINS], REMEDY)
    for copy in partial.glob("helm_python/lib/libhelm_c.so.*"):
        copy.unlink()


if __name__ == "__main__":
    helm_library(default_cache(), print)
