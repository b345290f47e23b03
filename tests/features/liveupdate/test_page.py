"""`docs/live-update.md` says what is so: its section about commands is run in order, and prints what the page shows."""

from pathlib import Path

import pytest

from lanloom.api.multus import NADS
from lanloom.kube.ports import Client
from tests.cli.cluster import served
from tests.cli.pages import check_page
from tests.features.liveupdate import bodies
from tests.features.liveupdate.test_cli import install, run_machine

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs/live-update.md"
_SECTION = "## Commands\n"


async def machines(client: Client) -> None:
    """A machine whose edit waits, one that runs, and one that can't migrate."""
    await install(client)
    await client.create(NADS, bodies.nad("vlan30", 30), "default")
    on = {"lan0": "vlan10", "lan1": "vlan30"}
    await run_machine(client, "db", on=on)
    await run_machine(client, "local", on=on, migratable=False)
    await run_machine(client, "web", on=on, wanted=on | {"lan1": "vlan20"})


def test_the_page_says_what_commands_print(tmp_path: Path) -> None:
    """Each command of the section prints what it shows; LANLOOM_GOLDEN=rewrite writes the page again."""
    with served(tmp_path, manager=False) as cluster:
        cluster.do(machines)
        check_page(cluster, PAGE, _SECTION)
