"""The CNI plugin, put together: the program in the runtime's directory, and the agent's socket behind it."""

import asyncio
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

LOOK_SECONDS = 60.0
"""How often the agent looks whether the plugin is still where it put it."""

PartObserver = Callable[[str, bool], None]
"""Told whether a part, `plugin` or `socket`, is there."""

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
    on_part: PartObserver = lambda _part, _there: None,
    every: float = LOOK_SECONDS,
) -> None:
    """Answers the plugin until cancelled; `observe` is told of each call, `on_part` which part is there.

    What fails here is logged, and the node's VLANs are kept all the same. `every` is in seconds, see LOOK_SECONDS.
    """
    service = _LateService(client, node, Recorder(client, "lanloom-agent", node, now=now, rng=rng), rng)
    server = CniServer(
        settings.socket, service.answer, observe=observe, on_ready=lambda: on_part("socket", True)
    )
    keeper = asyncio.create_task(_keep_installed(settings, on_part, every))
    on_part("socket", False)
    try:
        settings.socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        await server.run()
    except OSError as error:
        log.error("cni-not-served", socket=str(settings.socket), error=str(error))
        on_part("socket", False)
        await keeper
    finally:
        keeper.cancel()


async def _keep_installed(settings: CniSettings, on_part: PartObserver, every: float) -> None:
    """Puts the plugin into place, and again when somebody has replaced or removed it: an upgrade of the host, say."""
    complained = ""
    while settings.programs is not None:
        path = settings.programs / PROGRAM
        try:
            if install(settings.programs, settings.socket):
                log.info("cni-plugin-installed", path=str(path))
            complaint = ""
        except OSError as error:
            complaint = str(error)
        if complaint and complaint != complained:
            log.error("cni-plugin-not-installed", path=str(path), error=complaint)
        complained = complaint
        on_part("plugin", not complaint)
        await asyncio.sleep(every)
