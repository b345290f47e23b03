"""`docs/dummy.md` says what is so: its commands are run in order, and print what the page shows."""

import asyncio
import re
import shutil
import time
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import fields

from lanloom.features.dummy.rules.flags import Flags
from lanloom.features.dummy.views import DummyView
from lanloom.kube.ports import Client
from lanloom.processes.blockers import Explanation
from lanloom_lab.workloads.daemonsets import DaemonSets
from lanloom_lab.workloads.scheduler import Scheduler
from tests.cli.cluster import served
from tests.cli.pages import check_objects, check_page
from tests.features.dummy.cli.dummies import IMAGE, add_nodes
from tests.features.dummy.cluster.kubelets import Kubelets

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs/dummy.md"


async def workloads(client: Client) -> None:
    """What makes a cluster of the server: three nodes, and who brings pods to them."""
    await add_nodes(client, "node1", "node2", "node3")
    kubelets = Kubelets(client, time.time, Random(1))
    await asyncio.gather(
        DaemonSets(client, Random(2)).run(), Scheduler(client, Random(3)).run(), kubelets.run()
    )


def test_the_page_says_what_commands_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command of the page prints what the page shows; LANLOOM_GOLDEN=rewrite writes the page again."""
    place = tmp_path / "place"
    shutil.copytree(ROOT / "examples", place / "examples")
    monkeypatch.chdir(place)
    settings = Flags(default=False, image=IMAGE)
    with served(tmp_path, manager=True, beside=workloads, dummy=settings) as cluster:
        check_page(cluster, PAGE)


def test_the_pages_objects_are_examples() -> None:
    """What the page shows as YAML stands in one of the examples or manifests."""
    check_objects(PAGE, [*(ROOT / "examples").glob("dummy*.yaml"), ROOT / "deploy/dummy.yaml"])


def test_the_page_tells_every_field_of_json() -> None:
    """The tables of fields name what programs get, each field once and no other."""
    told = PAGE.read_text().partition("## For programs")[2].partition("## Limits")[0]
    tables = [re.findall(r"^\| (`.*?) \|", part, re.MULTILINE) for part in told.split("| field of ")[1:]]
    named = [[word for row in rows for word in re.findall(r"`(\w+)`", row)] for rows in tables]
    assert [sorted(each) for each in named] == [
        sorted(field.encode_name for field in fields(kind)) for kind in (DummyView, Explanation)
    ]
