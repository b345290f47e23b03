"""Pages that show commands with their output, and whether they say the truth.

What is shown is each block of a page that is fenced as `console`: lines after `$ ` are typed, as one command where a
line ends with a backslash; the others are printed. A line that is only `…` stands for any number of lines, and within a
line for anything. A block fenced as `console lab` needs nodes: `tests/lab/test_pages.py` tries it. One fenced as `sh`
prints nothing, and is not tried.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from lanloom_lab.assets import default_cache
from tests.cli.cluster import Cluster
from tests.harness.servers.build import binaries

_BLOCK = r"^```{fence}\n(.*?)^```$"
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*?)(?=\$ |\Z)", re.MULTILINE)
_SHELL = re.compile(r"[|<>;&$`*\n]")
_READS = re.compile(
    r"kubectl (get|wait|events)|lanloom (network|instance) (list|info|usage|list-fields)\b"
    r"|lanloom (dummy|status|why-not-deleted)\b"
)
_CHANCE: Mapping[str, str] = {
    "UUID": r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
    "TIME": r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\b\d{8}T\d{6}Z(\.\d+)?",
    "MAC": r"\baa:00:00(:[0-9a-f]{2}){3}\b",
    "AGE": r"(?<![\w:.-])(\d+[smhd]){1,2}(?![\w:.-])|<unknown>",
    " ": r" {2,}",
}
"""What differs from run to run, and columns that are as wide as that; files of the same second have a number more."""


class Shown(Struct, frozen=True):
    """A command on a page and what it is said to print; `start` is where in the page that is."""

    typed: str
    printed: str
    start: int

    @property
    def command(self) -> str:
        """What the shell gets."""
        return self.typed.replace("\\\n", "")

    def is_right(self, output: str) -> bool:
        """Whether the page says this."""
        return re.fullmatch(_pattern(self.printed), _plain(output)) is not None


def shown(page: str, fence: str = "console") -> Iterator[Shown]:
    """The commands of a page, in order, in the blocks with this fence, which is a regular expression."""
    for block in re.finditer(_BLOCK.format(fence=fence), page, re.MULTILINE | re.DOTALL):
        for item in _COMMAND.finditer(page, block.start(1), block.end(1)):
            yield Shown(item[1], item[2], item.start(2))


def output_of(cluster: Cluster, item: Shown, last: int, patience: float) -> tuple[str, int]:
    """What a command prints, and its exit status; `last` is that of the command before.

    A command that only reads is run until it prints what the page says, for what it reads is brought about by a
    manager meanwhile, or until the seconds of `patience` are over.
    """
    deadline = time.monotonic() + patience
    while True:
        output, status = _run(cluster, item.command, last)
        if item.is_right(output) or not _READS.match(item.command) or time.monotonic() > deadline:
            return output, status
        time.sleep(0.1)


def check_page(cluster: Cluster, page: Path, section: str = "") -> None:
    """Run the commands of a page, or of the section with that heading, in order: each prints what the page shows.

    LANLOOM_GOLDEN=rewrite writes the page again.
    """
    before, heading, rest = page.read_text().partition(section) if section else ("", "", page.read_text())
    text, following, after = rest.partition("\n## ") if section else (rest, "", "")
    assert not section or (heading and following)
    writing = os.environ.get("LANLOOM_GOLDEN") == "rewrite"
    wrong: list[tuple[Shown, str]] = []
    status = 0
    for item in shown(text):
        output, status = output_of(cluster, item, status, patience=3 if writing else 60)
        if not item.is_right(output):
            wrong.append((item, output))
    if writing:
        page.write_text(before + heading + rewritten(text, wrong) + following + after)
    assert writing or not wrong, "\n".join(f"$ {item.typed}\n{output}" for item, output in wrong)


def check_objects(page: Path, examples: Iterable[Path]) -> None:
    """Check that each object of a page is in one of these files."""
    texts = [file.read_text() for file in examples]
    objects = re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert objects
    assert all(any(item in text for text in texts) for item in objects)


def _run(cluster: Cluster, command: str, last: int) -> tuple[str, int]:
    if command == "echo $?":
        return f"{last}\n", 0
    if command.startswith("lanloom ") and not _SHELL.search(command):
        done = cluster.lanloom(*shlex.split(command)[1:])
        return done.output, done.exit_code
    program = Path(shutil.which("kubectl") or binaries(default_cache(), print) / "kubectl")
    path = os.pathsep.join((str(Path(sys.executable).parent), str(program.parent), os.environ["PATH"]))
    own = {"KUBECONFIG": str(cluster.kubeconfig), "COLUMNS": "80", "LC_ALL": "C.UTF-8", "PATH": path}
    own["HOME"] = str(cluster.kubeconfig.parent)  # where kubectl remembers what a server at this port serves
    finished = subprocess.run(
        ["bash", "-c", command],
        env=os.environ | own | {"NO_PROXY": "127.0.0.1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    return finished.stdout, finished.returncode


def rewritten(page: str, outputs: Iterable[tuple[Shown, str]]) -> str:
    """The page with other outputs of some of its commands, which are in order."""
    for item, output in reversed(list(outputs)):
        page = page[: item.start] + output + page[item.start + len(item.printed) :]
    return page


def _plain(text: str) -> str:
    for name, pattern in _CHANCE.items():
        text = re.sub(pattern, name, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _pattern(printed: str) -> str:
    text = re.escape(_plain(printed))
    return re.sub(r"(?m)^…\\?\n", "(?:[^\n]*\n)*?", text).replace("…", "[^\n]*")
