"""Where a lab keeps what on disk, and what it must know when it starts again.

Everything of a lab is in its state directory; nothing else on the machine belongs to it, and removing the directory
of a lab that does not run removes the lab.
"""

import fcntl
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from lanloom_lab.errors import AlreadyRunning, BadOption
from lanloom_lab.plan import DhcpNetwork, NodeSpec

_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+@=~-]+")


class NodeRecord(Struct, frozen=True):
    """A node that the lab has, running or not. `token` is what its agent shows to the API server."""

    spec: NodeSpec
    token: str
    powered: bool = True


class LabRecord(Struct, frozen=True):
    """What a lab remembers while it is down. `port` is the API server's on the host, 0 before it had one."""

    dhcp: tuple[DhcpNetwork, ...]
    port: int = 0
    nodes: tuple[NodeRecord, ...] = ()


def default_state() -> Path:
    """`$XDG_STATE_HOME/lanloom/lab`, by default `~/.local/state/lanloom/lab`."""
    configured = os.environ.get("XDG_STATE_HOME", "")
    base = Path(configured) if configured.startswith("/") else Path.home() / ".local/state"
    return base / "lanloom/lab"


def check_plain(path: Path, complaint: str) -> None:
    """Raises BadOption for a path that can't be a word of a kernel's command line."""
    if not _PLAIN_PATH.fullmatch(str(path)):
        raise BadOption(
            f"{complaint} {str(path)!r}",
            "Choose a directory whose path has only letters, digits and ._/+@=~- in it.",
        )


class Layout:
    """The files of the lab in `state`. Raises BadOption for a path that can't be given to a kernel."""

    def __init__(self, state: Path) -> None:
        self.state = state.absolute()
        check_plain(self.state, "the lab's state can't be in")

    @property
    def kubeconfig(self) -> Path:
        """The administrator's access to the API server, from the host."""
        return self.state / "kubeconfig"

    @property
    def data(self) -> Path:
        """The API server's data."""
        return self.state / "data.db"

    @property
    def tokens(self) -> Path:
        """The nodes' tokens, as the API server reads them."""
        return self.state / "tokens.csv"

    @property
    def logs(self) -> Path:
        """What the parts of the lab print."""
        return self.state / "log"

    @property
    def scratch(self) -> Path:
        """What is of no use to the next run."""
        return self.state / "scratch"

    @property
    def last_words(self) -> Path:
        """Why a lab ended by itself; there is no such file if it was asked to end, or killed."""
        return self.state / "last-words"

    @property
    def socket(self) -> Path:
        """Where the supervisor listens."""
        return self.state / "lab.sock"

    def disk(self, node: str) -> Path:
        """What a node keeps."""
        return self.state / "nodes" / node

    @property
    def _record(self) -> Path:
        return self.state / "lab.json"

    @property
    def _lock(self) -> Path:
        return self.state / "lock"

    def make(self) -> None:
        """Makes the directories; only their owner can look inside, as there are tokens."""
        self.state.mkdir(parents=True, exist_ok=True)
        self.state.chmod(0o700)
        for directory in (self.logs, self.scratch, self.state / "nodes"):
            directory.mkdir(exist_ok=True)

    def lock(self) -> int:
        """Takes the lock that a running lab holds; returns its descriptor. Raises AlreadyRunning."""
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
        """Whether somebody holds the lock."""
        if not self._lock.exists():
            return False
        try:
            os.close(self.lock())
        except AlreadyRunning:
            return True
        return False

    def load(self) -> LabRecord | None:
        """What the lab remembers, None for a new one. Raises BadOption when it is not what `save` wrote."""
        try:
            return msgspec.json.decode(self._record.read_bytes(), type=LabRecord)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise BadOption(
                f"{self._record} is not what this version of Lanloom wrote: {error}",
                "Begin anew: `lanloom lab down`, then `lanloom lab up`.",
            ) from None

    def save(self, record: LabRecord) -> None:
        """Remembers."""
        write_private(self._record, msgspec.json.format(msgspec.json.encode(record)))

    def remove(self) -> None:
        """Removes all files of the lab, and nothing that somebody else put there."""
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


def write_private(path: Path, content: bytes) -> None:
    """Replaces a file in one step; only its owner can read it."""
    new = path.with_name(f".{path.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    new.rename(path)
