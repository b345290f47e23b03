"""The files of a lab on disk, and what it must remember to start again.

All files of a lab are in its state directory. Removing the directory of a stopped lab removes the lab.
"""

import fcntl
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from lanloom.node.files import replace_at
from lanloom_lab.errors import AlreadyRunning, BadOption
from lanloom_lab.plan import DhcpNetwork, NodeSpec

_LOG_STEM_MAX = 255 - len(".log")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+@=~-]+")


class NodeRecord(Struct, frozen=True):
    """A node of the lab, running or not. Its agent presents `token` to the API server."""

    spec: NodeSpec
    token: str
    powered: bool = True


class LabRecord(Struct, frozen=True):
    """The record of a stopped lab. `port` is that of the API server on the host, 0 before it had one.

    `console_port` is that of the console. `isolated` tells whether Multus, and Lanloom with it, isolates namespaces.
    """

    dhcp: tuple[DhcpNetwork, ...]
    port: int = 0
    nodes: tuple[NodeRecord, ...] = ()
    isolated: bool = False
    console_port: int = 0


def default_state() -> Path:
    """Return `$XDG_STATE_HOME/lanloom/lab`, by default `~/.local/state/lanloom/lab`."""
    configured = os.environ.get("XDG_STATE_HOME", "")
    base = Path(configured) if configured.startswith("/") else Path.home() / ".local/state"
    return base / "lanloom/lab"


def check_plain(path: Path, complaint: str) -> None:
    """Raise BadOption for a path that can't be a word of a kernel's command line."""
    if not _PLAIN_PATH.fullmatch(str(path)):
        raise BadOption(
            f"{complaint} {str(path)!r}",
            "Choose a directory whose path has only letters, digits and ._/+@=~- in it.",
        )


def log_name(program: str) -> str:
    """Return the name of the log of a node's program or pod: a pod's name may be longer than that of a file."""
    return f"{program[:_LOG_STEM_MAX]}.log"


class Layout:
    """The files of the lab in `state`. Raises BadOption for a path that can't be passed to a kernel."""

    def __init__(self, state: Path) -> None:
        self.state = state.absolute()
        check_plain(self.state, "the lab's state can't be in")

    @property
    def kubeconfig(self) -> Path:
        """Return the kubeconfig of the administrator, for use on the host."""
        return self.state / "kubeconfig"

    @property
    def data(self) -> Path:
        """Return the data file of the API server."""
        return self.state / "data.db"

    @property
    def tokens(self) -> Path:
        """Return the token file of the nodes, in the format of the API server."""
        return self.state / "tokens.csv"

    @property
    def logs(self) -> Path:
        """Return the directory of the logs."""
        return self.state / "log"

    @property
    def scratch(self) -> Path:
        """Return the directory for files that the next run does not need."""
        return self.state / "scratch"

    @property
    def last_words(self) -> Path:
        """Return the file with the reason why a lab ended by itself; absent if it was stopped or killed."""
        return self.state / "last-words"

    @property
    def socket(self) -> Path:
        """Return the socket of the supervisor."""
        return self.state / "lab.sock"

    def disk(self, node: str) -> Path:
        """Return the directory with the files that a node keeps."""
        return self.state / "nodes" / node

    @property
    def _record(self) -> Path:
        return self.state / "lab.json"

    @property
    def _lock(self) -> Path:
        return self.state / "lock"

    def make(self) -> None:
        """Create the directories, readable by their owner only, because they contain tokens."""
        self.state.mkdir(parents=True, exist_ok=True)
        self.state.chmod(0o700)
        for directory in (self.logs, self.scratch, self.state / "nodes"):
            directory.mkdir(exist_ok=True)

    def lock(self) -> int:
        """Take the lock of a running lab; return its descriptor. Raises AlreadyRunning."""
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise AlreadyRunning(
                f"a lab runs already (its state is in {self.state})",
                "See it with `lanloom lab status`, end it with `lanloom lab down`, or give another --state.",
            ) from None
        return descriptor

    def runs(self) -> bool:
        """Return whether a process holds the lock."""
        if not self._lock.exists():
            return False
        try:
            os.close(self.lock())
        except AlreadyRunning:
            return True
        return False

    def load(self) -> LabRecord | None:
        """Return the record of the lab, None for a new one. Raises BadOption if `save` did not write it."""
        try:
            return msgspec.json.decode(self._record.read_bytes(), type=LabRecord)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise BadOption(
                f"{self._record} is not what this version of Lanloom wrote: {error}",
                "Begin again: `lanloom lab down`, then `lanloom lab up`.",
            ) from None

    def save(self, record: LabRecord) -> None:
        """Write the record."""
        replace_at(self._record, msgspec.json.format(msgspec.json.encode(record)))

    def remove(self) -> None:
        """Remove all files of the lab, and no files of others."""
        for directory in (self.logs, self.scratch, self.state / "nodes"):
            shutil.rmtree(directory, ignore_errors=True)
        for file in (
            self._record,
            self.kubeconfig,
            self.tokens,
            self.socket,
            self.last_words,
            self._lock,
            *self.state.glob("data.db*"),
        ):
            file.unlink(missing_ok=True)
        with suppress(OSError):
            self.state.rmdir()
