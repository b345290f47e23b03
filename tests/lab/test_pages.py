"""Pages whose commands need nodes say what is so: the commands are run on a lab as they are printed, in order.

A command that shows no output need only succeed. One that does prints that, as in the tests of pages without nodes.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from lanloom_lab.assets import default_cache
from tests.cli.pages import Shown, rewritten, shown
from tests.harness.servers.build import SHORT_LIVED, binaries
from tests.lab.conftest import remove_networks
from tests.lab.driver import Lab, eventually
from tests.lab.looks import NODES

pytestmark = [pytest.mark.lab, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PATIENCE = 240.0
"""Seconds until a command that reads must print what the page shows."""

_IS_DONE = re.compile(r"lanloom lab up$|export ")
"""What the shell of the test finds done: its lab runs, and kubectl knows it."""

_READS = re.compile(r"kubectl (get|wait)|lanloom (status|\w+ (list|show|trace)|lab guest|lab exec)")


class Section(Struct, frozen=True):
    """A part of a page from a heading to the next one."""

    page: str
    heading: str
    fence: str = "console"


SECTIONS = {
    "README": Section("README.md", "## A cluster on your machine"),
    "live update": Section("docs/live-update.md", "## Try it in a lab"),
    "lan": Section("docs/lan.md", "## Try it in a lab", "console lab"),
    "address management": Section("docs/ipam.md", "## Allocate addresses to nodes", "console lab"),
}


class Shell:
    """The shell of a reader of the page, in the project's directory, whose default lab is this one."""

    def __init__(self, lab: Lab, home: Path) -> None:
        place = home / "lanloom"
        place.mkdir()
        (place / "lab").symlink_to(lab.state)
        kubectl = Path(shutil.which("kubectl") or binaries(default_cache(), print) / "kubectl")
        path = os.pathsep.join((str(Path(sys.executable).parent), str(kubectl.parent), os.environ["PATH"]))
        own = {
            "KUBECONFIG": str(lab.state / "kubeconfig"),
            "XDG_STATE_HOME": str(home),
            "COLUMNS": "120",
            "PATH": path,
        }
        self._environment = os.environ | own | {"LC_ALL": "C.UTF-8", "NO_PROXY": "127.0.0.1"} | SHORT_LIVED

    def run(self, command: str) -> tuple[str, int]:
        """What a command prints, and its exit status."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=400,
        )
        return done.stdout, done.returncode

    def wrong(self, item: Shown) -> str | None:
        """What a command prints instead of what the page shows, or why it fails; None where the page is right."""
        deadline = time.monotonic() + PATIENCE
        while True:
            output, status = self.run(item.command)
            right = item.is_right(output) if item.printed else status == 0
            if right or not _READS.match(item.command) or time.monotonic() > deadline:
                return None if right else output
            time.sleep(0.5)


@pytest.fixture
def shell(clean: Lab, tmp_path: Path) -> Iterator[Shell]:
    """A shell with a lab that has no networks yet; afterwards without what the pages make besides networks."""
    clean.kubectl("delete", "events", "--all", "--namespace=default")
    try:
        yield Shell(clean, tmp_path)
    finally:
        clean.kubectl("delete", "virtualmachines", "--all", "--namespace=default", "--timeout=300s")
        eventually(lambda: not clean.kubectl("get", "vmi", "--namespace=default", "-o", "name"))
        remove_networks(clean)
        clean.run("node", "remove", "node4", status=None)
        eventually(lambda: not clean.kubectl("get", "nics", "--namespace=default", "-o", "name"))
        clean.kubectl("delete", "networks.ipam.lanloom.io", "--all", "--timeout=300s")


@pytest.mark.parametrize("section", SECTIONS.values(), ids=SECTIONS)
def test_a_section(section: Section, shell: Shell) -> None:
    """Each command prints what the page shows, or succeeds; LANLOOM_GOLDEN=rewrite writes the page again."""
    page = ROOT / section.page
    before, title, rest = page.read_text().partition(f"\n{section.heading}\n")
    text, following, after = rest.partition("\n## ")
    assert title
    items = [item for item in shown(text, section.fence) if not _IS_DONE.match(item.command)]
    assert items
    wrong = [(item, output) for item in items if (output := shell.wrong(item)) is not None]
    if os.environ.get("LANLOOM_GOLDEN") == "rewrite":
        page.write_text(before + title + rewritten(text, wrong) + following + after)
    else:
        assert not wrong, "\n".join(f"$ {item.typed}\n{output}" for item, output in wrong)


def test_the_table_of_commands(shell: Shell) -> None:
    """Each command of README's table without placeholders runs as it is printed, with the example machine."""
    table = (
        ROOT.joinpath("README.md").read_text().partition("| Command | Description |")[2].partition("\n\n")[0]
    )
    commands = [
        cell
        for row in table.splitlines()
        for cell in re.findall(r"`(lanloom lab [^`]*)`", row.split(" | ")[0])
    ]
    assert "lanloom lab exec node1 -- ip -br address" in commands
    for preparation in (
        "kubectl apply -f examples/vm.yaml",
        "kubectl wait --for=condition=Ready vm/vm1 --timeout=300s",
    ):
        assert shell.run(preparation)[1] == 0
    for command in (each for each in commands if not _IS_DONE.match(each)):
        assert (wrong := shell.wrong(Shown(command, "", 0))) is None, f"$ {command}\n{wrong}"
    for node in NODES:
        shell.run(f"lanloom lab node start {node}")
    shell.run("lanloom lab mend")
