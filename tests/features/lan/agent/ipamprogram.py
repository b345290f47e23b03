"""A program for addresses that says what a test tells it to say, and keeps what it was asked."""

import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lanloom.features.lan.agent.ipam import Ipam

Raw = dict[str, Any]

PATIENCE = 60.0

GIVEN: Raw = {
    "cniVersion": "1.0.0",
    "ips": [{"address": "192.0.2.7/24", "gateway": "192.0.2.1"}],
    "routes": [{"dst": "198.51.100.0/24"}],
}

_TEXT = """#!/bin/sh
cd {directory}
cat >config.$CNI_COMMAND
env >environment.$CNI_COMMAND
echo $CNI_COMMAND >>calls
[ -e script.$CNI_COMMAND ] && exec /bin/sh ./script.$CNI_COMMAND
exit 0
"""


class IpamProgram:
    """The program `fake-ipam` in a directory of CNI programs. An ADD gives GIVEN."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self._directory = directory
        self.programs = programs
        self.path = programs / "fake-ipam"
        directory.mkdir()
        self.path.write_text(_TEXT.format(directory=directory))
        self.path.chmod(0o755)
        self.gives(GIVEN)

    def ipam(self, **options: Any) -> Ipam:
        """An agent's side of it."""
        allowed = {"fake-ipam": (self._directory,)}
        return Ipam(self.programs, allowed, **{"owners": (os.geteuid(),), **options})

    def gives(self, result: Raw | list[Any]) -> None:
        """What ADD prints."""
        (self._directory / "result").write_text(json.dumps(result))
        self.runs("ADD", "cat result")

    def runs(self, command: str, script: str) -> None:
        """What a command does, as a shell's script."""
        (self._directory / f"script.{command}").write_text(script)

    def refuses(self, command: str, code: int, msg: str) -> None:
        """A command fails as CNI says."""
        body = json.dumps({"cniVersion": "1.0.0", "code": code, "msg": msg})
        self.runs(command, f"echo '{body}'; exit 1")

    @property
    def calls(self) -> list[str]:
        """The commands of the calls so far."""
        path = self._directory / "calls"
        return path.read_text().split() if path.exists() else []

    def config(self, command: str) -> Raw:
        """The configuration of the last call of a command."""
        found: Raw = json.loads((self._directory / f"config.{command}").read_text())
        return found

    def environment(self, command: str) -> dict[str, str]:
        """The variables of the last call of a command."""
        lines = (self._directory / f"environment.{command}").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def file(self, name: str) -> Path:
        """A file that a script left."""
        return self._directory / name

    def wait_for(self, name: str) -> None:
        """Wait for a file that a script makes."""
        self._until(self.file(name).exists)

    def wait_for_the_end_of(self, name: str) -> None:
        """Wait until every process is gone that has locked a file, which a script may have made."""
        if self.file(name).exists():
            self._until(lambda: not _is_locked(self.file(name)))

    def _until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "it does not come about"
            time.sleep(0.01)


def _is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
