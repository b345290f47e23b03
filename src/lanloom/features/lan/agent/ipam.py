"""IPAM programs, called as CNI says: the whole configuration on standard input, a result on standard output.

The agent is root, and a tenant who may write a NAD chooses the program and what it reads. So a program must be one of
the agent's options, lie in the agent's own directory of CNI programs, and be a file that only root can write; the
`CNI_PATH` of a call is not searched. It gets only what `ipamconfig` lets through, and runs in a sandbox without any
capability. It gets no variables of the agent but PATH. Time, output and number of programs are limited, and one that is
stopped is stopped with all that it started.

A program that this process answers itself is not run: its call is answered in place, with the same fields. Nothing of
LANs is locked meanwhile.
"""

import asyncio
import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from subprocess import Popen
from types import MappingProxyType
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from lanloom.features.lan.agent.calls import ipam_type
from lanloom.features.lan.agent.ipamprocess import LARGEST, Ended, IpamViews, TooLarge, run
from lanloom.features.lan.agentoptions import IPAM_PROGRAMS, IpamPrograms
from lanloom.features.lan.rules.addressing import Given, read_given
from lanloom.features.lan.rules.ipamconfig import RELEASES, Raw, arguments, program_config
from lanloom.node.errors import NodeError
from lanloom.node.sandbox import start
from lanloom.runtime.cni.calls import BAD_CONFIG, NOT_DECODED, TRY_AGAIN, Call, CniError
from lanloom.runtime.cni.server import CniService

log = structlog.get_logger(__name__)

SECONDS = {"ADD": 20.0, "DEL": 8.0, "CHECK": 10.0, "GC": 20.0, "STATUS": 4.0}
"""How long a program may take."""

AT_ONCE = 8
"""Programs that run at the same time; other calls wait."""

_SHOWN = 500
_LARGEST_CODE = 1 << 31


class NothingGiven(CniError):
    """An ADD that failed without an effect: there is nothing to be released."""


class Ipam:
    """The programs in `directory` (None for none) with a name in `allowed`, each with its view of the node.

    `owners` may own their files. `local` are the programs that this process answers itself.
    """

    def __init__(
        self,
        directory: Path | None,
        allowed: IpamPrograms = IPAM_PROGRAMS,
        *,
        views: IpamViews | None = None,
        seconds: Mapping[str, float] = SECONDS,
        owners: Collection[int] = (0,),
        local: Mapping[str, CniService] = MappingProxyType({}),
    ) -> None:
        self._directory = directory
        self._local = local
        self._allowed = allowed
        self._views = views or IpamViews(None, None)
        self._seconds = seconds
        self._owners = owners
        self._running = asyncio.Semaphore(AT_ONCE)

    async def add(self, call: Call) -> Given:
        """Return the addresses that the program gives. Raises CniError, and NothingGiven where it gave none."""
        result = await self._called(call, "ADD")
        try:
            return read_given(result)
        except ValueError as error:
            raise _unusable(ipam_type(call.config), error) from None

    async def run(self, call: Call, command: str) -> None:
        """Call the program for a command without a result. Raises CniError."""
        await self._called(call, command)

    async def _called(self, call: Call, command: str) -> object:
        """Return the result of an ADD. Raises CniError."""
        name = ipam_type(call.config)
        local = self._local.get(name) if name in self._allowed else None
        path = await self._path(name) if local is None else Path()
        config = _checked(call.config, command)
        try:
            if local is not None:
                return await self._answered(local, name, command, call, config)
            return await self._output(name, path, command, call, config)
        except TimeoutError:
            seconds = self._seconds[command]
            raise CniError(
                TRY_AGAIN, f"ipam.type: {name} did not end within {seconds:g} s; try again later"
            ) from None

    async def _answered(
        self, service: CniService, name: str, command: str, call: Call, config: Raw
    ) -> object:
        asked = replace(call, program=name, command=command, config=config, args=arguments(call.args))
        try:
            async with asyncio.timeout(self._seconds[command]):
                return await service.counted(asked)
        except CniError as error:
            raise NothingGiven(error.code, f"{name}: {error.msg}", error.details) from None

    async def _path(self, name: str) -> Path:
        try:
            return await asyncio.to_thread(self._find, name)
        except (OSError, RuntimeError):  # Python 3.11 says so of a circle of symbolic links
            raise NothingGiven(
                BAD_CONFIG,
                f"ipam.type: there is no program {name} in the agent's directory {self._directory}",
            ) from None

    async def _output(self, name: str, path: Path, command: str, call: Call, config: Raw) -> object:
        """Return what a program printed after ADD, decoded. Raises CniError, TimeoutError."""
        try:
            status, output, complaint = await self._execute(name, path, command, _variables(call), config)
        except TooLarge:
            raise CniError(NOT_DECODED, f"ipam.type: {name} gave more than {LARGEST} bytes") from None
        except TimeoutError:
            raise
        except (OSError, NodeError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise NothingGiven(TRY_AGAIN, f"ipam.type: {name} can't be started: {why}") from None
        if complaint:
            log.info("lan-ipam-complaint", program=name, command=command, text=_printable(complaint))
        if status != 0:
            raise _refusal(name, status, output)
        try:
            return msgspec.json.decode(output) if command == "ADD" else None
        except (ValueError, RecursionError) as error:
            raise _unusable(name, error) from None

    async def _execute(
        self, name: str, path: Path, command: str, variables: Mapping[str, str], config: Raw
    ) -> Ended:
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            **variables,
            "CNI_ARGS": arguments(variables.get("CNI_ARGS", "")),
            "CNI_COMMAND": command,
            "CNI_PATH": str(path.parent),
        }

        def started() -> Popen[bytes]:
            sandbox = self._views.sandbox(name, config["name"], path.parent, self._allowed[name])
            return start(path, environment, sandbox)

        async with asyncio.timeout(self._seconds[command]), self._running:
            return await run(started, msgspec.json.encode(config))

    def _find(self, name: str) -> Path:
        """Return the program. Raises CniError for one that must not be run, and OSError for one that is not there."""
        directory = self._directory
        if directory is None:
            raise NothingGiven(
                BAD_CONFIG, "ipam: this agent has no directory of CNI programs; start it with --cni-bin"
            )
        if name not in self._allowed:
            raise NothingGiven(
                BAD_CONFIG,
                f"ipam.type: {name} is not one of {', '.join(self._allowed)}; if it is an IPAM program, start the "
                f"agent with --ipam-program={name}, in addition to those that are to stay",
            )
        path = directory / name
        target = path.resolve(strict=True)
        status = target.stat()
        if not target.is_relative_to(directory.resolve()):
            why = "is outside of the directory"
        elif not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o111:
            why = "is not an executable file"
        elif status.st_uid not in self._owners or status.st_mode & 0o022:
            why = "can be written by others than root"
        else:
            return path
        raise NothingGiven(BAD_CONFIG, f"ipam.type: {path} {why}; the agent does not run it")


def _variables(call: Call) -> dict[str, str]:
    """Return the CNI_* variables for the program of a call, without those of the command."""
    found = {
        "CNI_CONTAINERID": call.container,
        "CNI_IFNAME": call.interface,
        "CNI_NETNS": call.netns,
        "CNI_ARGS": call.args,
    }
    return {name: value for name, value in found.items() if value}


def _unusable(name: str, error: Exception) -> CniError:
    return CniError(NOT_DECODED, f"ipam.type: {name} gave a result that can't be used", str(error))


def _checked(config: Raw, command: str) -> Raw:
    """Return the program's input.

    Raises CniError for a field that it must not get, unless it gives addresses back.
    """
    found, faults = program_config(config, command)
    if faults and (command not in RELEASES or "name" not in found):
        raise NothingGiven(BAD_CONFIG, faults[0])
    if faults:
        log.info("lan-ipam-fields-left-out", command=command, faults=faults)
    return found


def _refusal(name: str, status: int, output: bytes) -> CniError:
    """Return the error that a program answered with, in its words."""
    try:
        body: Any = msgspec.json.decode(output)
        code, msg, details = body["code"], body["msg"], body.get("details", "")
        if isinstance(code, int) and 0 < code < _LARGEST_CODE and isinstance(msg, str) and msg:
            return NothingGiven(code, f"{name}: {_printable(msg)}", _printable(details))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass
    return CniError(
        NOT_DECODED, f"ipam.type: {name} failed with status {status} and no error by CNI", _printable(output)
    )


def _printable(text: object) -> str:
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    shown = text if isinstance(text, str) else ""
    return "".join(letter if letter.isprintable() else " " for letter in shown[:_SHOWN]).strip()
