"""The sets of values for which tests compare what the chart makes."""

from typing import Any

import yaml

from lanloom.processes.chart import source
from lanloom.processes.chart.values import merged
from tests.harness.servers.helm import ROOT

Raw = dict[str, Any]
GOLDEN = ROOT / "tests/golden/chart"


def value_sets() -> dict[str, Raw]:
    """Name → values, those of a distribution included."""
    found = yaml.safe_load((GOLDEN / "values.yaml").read_text())
    return {name: _complete(values) for name, values in found.items()}


def _complete(values: Raw) -> Raw:
    name = values.pop("distribution", "")
    return merged(source.distribution(name), values) if name else values


def documents(text: str) -> list[Raw]:
    """The objects of a stream."""
    return [item for item in yaml.load_all(text, yaml.CSafeLoader) if item]
