"""The CNI plugin, put together: the program in the runtime's directory, and the agent's socket behind it."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import structlog
from msgspec import Struct

import lanloom.cni
from lanloom.ipam.agent.protocol import Raw, Request
from lanloom.ipam.agent.server import CniServer, Observer
from lanloom.kube.events import Recorder
from lanloom.kube.ports import Client

if TYPE_CHECKING:
    from lanloom.ipam.agent.service import IpamService

PROGRAM = "lanloom-ipam"
"""The name of the program, which configurations give as the `type` of their `ipam` section."""

_SOCKET_LINE = 'SOCKET = "/run/lanloom/cni.sock"\n'

log = structlog.get_logger(__name__)


class CniSettings(Struct, frozen=True, kw_only=True):
    """`socket` is where the agent listens; `programs` the directory into which the plugin is put, None for nowhere.

    The plugin must see the socket under the same path.
    """

    socket: Path
    programs: Path | None = None


def program(socket: Path) -> bytes:
    """The plugin's text, for an agent that listens there."""
    sources = Path(lanloom.cni.__file__).parent
    text = "".join((sources / name).read_text(encoding="utf-8") for name in ("launcher.sh", "plugin.py"))
    if _SOCKET_LINE not in text:
        raise ValueError("the plugin's text has no line for the socket")
    return text.replace(_SOCKET_LINE, f"SOCKET = {str(socket)!r}\n").encode()


def install(directory: Path, socket: Path) -> bool:
    """Puts the plugin into a directory in one step, so that a runtime finds a whole one at any moment; whether it did.

    Raises OSError.
    """
    content, target = program(socket), directory / PROGRAM
    directory.mkdir(parents=True, exist_ok=True)
    if target.is_file() and target.read_bytes() == content and target.stat().st_mode & 0o777 == 0o755:
        return False
    fresh = directory / f".{PROGRAM}.{os.getpid()}"
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o755)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o755)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    return True


class _LateService:
    """The service, loaded at the first call: until then, on most nodes for good, it would only take memory."""

    def __init__(self, client: Client, node: str, recorder: Recorder, rng: Random) -> None:
        self._made = (client, node, recorder, rng)
        self._service: IpamService | None = None

    async def answer(self, request: Request) -> Raw:
        """As IpamService does."""
        if self._service is None:
            from lanloom.ipam.agent.service import IpamService

            client, node, recorder, rng = self._made
            self._service = IpamService(client, node, recorder, rng=rng)
        return await self._service.answer(request)


async def serve_cni(
    client: Client,
    node: str,
    settings: CniSettings,
    *,
    now: Callable[[], float],
    rng: Random,
    observe: Observer = lambda _command, _code: None,
) -> None:
    """Answers the plugin until cancelled; `observe` is told of each call.

    What fails here is logged, and the node's VLANs are kept all the same.
    """
    service = _LateService(client, node, Recorder(client, "lanloom-agent", node, now=now, rng=rng), rng)
    try:
        settings.socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if settings.programs is not None and install(settings.programs, settings.socket):
            log.info("cni-plugin-installed", path=str(settings.programs / PROGRAM))
        await CniServer(settings.socket, service.answer, observe=observe).run()
    except OSError as error:
        log.error("cni-not-served", socket=str(settings.socket), error=str(error))
