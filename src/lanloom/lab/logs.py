"""Reading the logs of a node's programs, which are files in the lab's state directory."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from lanloom.lab.errors import Refused
from lanloom.lab.layout import Layout

PAUSE = 0.3


def find(layout: Layout, node: str, program: str) -> Path:
    """The log file of a program of a node. Raises Refused, naming those that there are."""
    directory = layout.disk(node) / "log"
    known = {file.stem: file for file in sorted(directory.glob("*.log"))}
    if not known:
        raise Refused(f"there are no logs of a node {node!r}", "See the nodes with `lanloom lab status`.")
    if program not in known:
        raise Refused(f"{program!r} has no log on {node}", f"These have: {', '.join(known)}.")
    return known[program]


def read(log: Path, *, follow: bool, wait: Callable[[float], None] = time.sleep) -> Iterator[bytes]:
    """The content of a log, and with `follow` what is added to it, for ever."""
    with log.open("rb") as file:
        while True:
            while piece := file.read(1 << 16):
                yield piece
            if not follow:
                return
            wait(PAUSE)
