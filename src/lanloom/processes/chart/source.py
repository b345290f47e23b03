"""The chart as it was installed with Lanloom, or as it is in the checkout, and the manifests that follow from it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

import lanloom
from lanloom.api.crds import manifest, to_yaml
from lanloom.processes.chart.render import Renderer
from lanloom.processes.chart.values import merged, validated
from lanloom.processes.definitions import foreign

Raw = dict[str, Any]

ORDER = (
    "crds",
    "others",
    "manager",
    "rbac",
    "webhooks",
    "settings",
    "disruption",
    "agent",
    "lan",
    "host-install",
    "console",
    "alerts",
    "dashboards",
)
"""The templates in the order in which `kubectl apply` may have them: namespaces before what is in them."""

RELEASE_NAMESPACE = "default"
"""Where a release would be recorded; in any other namespace than Lanloom's own, its namespaces are part of it."""


def directory() -> Path:
    """Return the directory of the chart."""
    package = Path(lanloom.__file__).parent
    installed = package / "chart"
    return installed if installed.is_dir() else package.parents[1] / "deploy/chart/lanloom"


def distributions() -> tuple[str, ...]:
    """Return the names of the distributions of which the chart knows the directories."""
    return tuple(sorted(path.stem for path in (directory() / "distributions").glob("*.yaml")))


def distribution(name: str) -> Raw:
    """Return the values for a distribution."""
    return _yaml(f"distributions/{name}.yaml")


def defaults() -> Raw:
    """Return the values of values.yaml."""
    return _yaml("values.yaml")


def rendered(*values: Raw) -> Mapping[str, str]:
    """Return the text of each template, without those that are empty; later values go before earlier ones.

    Raises ValueError, which names the field, for values that do not fit.
    """
    root = directory()
    found = defaults()
    for each in values:
        found = merged(found, each)
    chart = _yaml("Chart.yaml")
    data = {
        "Values": validated(found),
        "Release": {"Namespace": RELEASE_NAMESPACE, "Name": "lanloom"},
        "Chart": {"Version": chart["version"], "AppVersion": chart["appVersion"]},
    }
    files = {f"files/{path.name}": path.read_text() for path in (root / "files").iterdir()}
    renderer = Renderer(data, files)
    renderer.render((root / "templates/_image.tpl").read_text())
    texts = {name: renderer.render((root / f"templates/{name}.yaml").read_text()) for name in ORDER}
    return {name: text.strip() + "\n" for name, text in texts.items() if "\nkind:" in text}


def foreign_definitions() -> str:
    """Return the kinds of other projects, for a cluster that lacks them."""
    return _joined(to_yaml(manifest(kind)) for kind in foreign())


def manifests(*values: Raw, include_foreign: bool = False) -> str:
    """Return all manifests as one stream. Raises as `rendered` does."""
    texts = rendered(*values)
    own = _joined(texts[name] for name in ORDER if name in texts)
    return f"{foreign_definitions()}---\n{own}" if include_foreign else own


def _joined(texts: Iterable[str]) -> str:
    return "---\n".join(texts)


def _yaml(name: str) -> Raw:
    found: Raw = yaml.safe_load((directory() / name).read_text())
    return found
