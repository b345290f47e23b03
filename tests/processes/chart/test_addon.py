"""Harvester's Addon for the chart, on a server with Harvester's definition of the kind."""

import random
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lanloom import __version__
from lanloom.api.core import CRDS, NAMESPACES
from lanloom.processes.chart import source
from lanloom.processes.chart.values import merged
from lanloom.runtime.https.errors import Invalid
from lanloom_embedded.engine.calls import Call
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage, full
from lanloom_embedded.local import LocalClient
from scripts.manifests import DEPLOY

Raw = dict[str, Any]

DEFINITION = Path(__file__).parents[2] / "recorded/harvester-addon.yaml"
ADDON: Raw = yaml.safe_load((DEPLOY / "harvester/addon.yaml").read_text())


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    """A server that has Harvester's definition of add-ons."""
    engine = Engine(MemoryStorage(), now=time.time, rng=random.Random(1))
    await engine.start()
    client = LocalClient(engine)
    await client.create(CRDS, yaml.safe_load(DEFINITION.read_text()))
    await client.create(NAMESPACES, {"metadata": {"name": "harvester-system"}})
    yield engine
    await engine.close()


async def created(engine: Engine, spec: Raw) -> Raw:
    """Create the add-on with this spec, and return it as the server keeps it."""
    kind = next(kind for kind in engine.registry.kinds() if kind.kind == "Addon")
    return full(kind, await engine.create(kind, "harvester-system", ADDON | {"spec": spec}, Call()))


async def test_harvester_s_kind_takes_it(engine: Engine) -> None:
    """The server keeps every field of the add-on: the kind knows them all."""
    assert (await created(engine, ADDON["spec"]))["spec"] == ADDON["spec"]


@pytest.mark.parametrize("field", list(ADDON["spec"]))
async def test_the_kind_wants_each_field(engine: Engine, field: str) -> None:
    """An add-on without one of its fields is refused."""
    spec = {name: value for name, value in ADDON["spec"].items() if name != field}
    with pytest.raises(Invalid, match=field):
        await created(engine, spec)


def test_it_installs_the_chart_of_this_version() -> None:
    """Chart and version are those of the repository, and the chart takes the values."""
    spec = ADDON["spec"]
    chart = yaml.safe_load((source.directory() / "Chart.yaml").read_text())
    assert (spec["chart"], spec["version"]) == (chart["name"], chart["version"]) == ("lanloom", __version__)
    values = merged(source.distribution("rke2"), yaml.safe_load(spec["valuesContent"]))
    assert f'image: "registry.example.com/lanloom:{__version__}"' in source.rendered(values)["manager"]
