"""What the agent answers to the CNI programs of LANs: it asks the data plane, and shapes what comes back.

A DEL succeeds for whatever the data plane says, once it is a call by CNI's rules: the attachment is on record, the
reconciler ends it, and a DEL that fails would keep the pod in Terminating. The other commands fail with a number that
tells whether trying again can help.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from lanloom.features.lan.agent.calls import (
    LARGEST,
    VERSIONS,
    Call,
    CallRefused,
    Raw,
    attachment_of,
    check_previous,
    decode,
    encode_error,
    encode_result,
    place_of,
    result_of,
    wanted_mtu,
)
from lanloom.features.lan.agent.ports import SpokeError, SpokesPort
from lanloom.runtime.callsocket import CallSocket
from lanloom.runtime.cnicall import (
    BAD_CONFIG,
    DIFFERENT,
    NOT_AVAILABLE,
    NOT_DECODED,
    REFUSED,
    TRY_AGAIN,
    CniError,
    network_name,
    valid_attachments,
)

SECONDS = {"ADD": 30.0, "DEL": 10.0, "CHECK": 15.0, "GC": 30.0, "STATUS": 5.0}
"""How long the data plane may take; the programs wait for longer."""

Observer = Callable[[str, str, int], None]
"""Called after each call with program and command, empty where they can't be read, and the error's code, 0 for none."""

log = structlog.get_logger(__name__)


class LanCni:
    """Answer calls by way of `spokes`; `observe` is told of each."""

    def __init__(
        self,
        spokes: SpokesPort,
        *,
        observe: Observer = lambda _program, _command, _code: None,
        seconds: dict[str, float] = SECONDS,
    ) -> None:
        self._spokes = spokes
        self._observe = observe
        self._seconds = seconds
        self._commands = {
            "ADD": self._add,
            "DEL": self._delete,
            "CHECK": self._check,
            "GC": self._collect,
            "STATUS": self._status,
        }

    async def reply(self, text: bytes) -> bytes:
        """The answer to a request; never raises."""
        try:
            call = decode(text)
        except CallRefused as refused:
            return self._failed("", "", refused.version, refused.error)
        try:
            result = await self._answer(call)
        except CniError as error:
            return self._failed(call.program, call.command, call.version, error)
        except MemoryError:
            raise
        except Exception:
            log.exception("lan-cni-broke", program=call.program, command=call.command)
            failure = CniError(TRY_AGAIN, "Lanloom's agent failed; see its log, and try again later")
            return self._failed(call.program, call.command, call.version, failure)
        self._observe(call.program, call.command, 0)
        return encode_result(result)

    def refuse(self, why: str) -> bytes:
        """The answer to a request that did not end."""
        return self._failed("", "", VERSIONS[-1], CniError(NOT_DECODED, why))

    def _failed(self, program: str, command: str, version: str, error: CniError) -> bytes:
        log.warning(
            "lan-cni-failed",
            program=program,
            command=command,
            code=error.code,
            error=error.msg,
            details=error.details,
        )
        self._observe(program, command, error.code)
        return encode_error(version, error)

    async def _answer(self, call: Call) -> Raw | None:
        seconds = self._seconds[call.command]
        try:
            async with asyncio.timeout(seconds):
                return await self._commands[call.command](call)
        except TimeoutError:
            error = CniError(TRY_AGAIN, f"the LAN was not ready within {seconds:g} s; try again later")
        except SpokeError as refusal:
            error = CniError(TRY_AGAIN if refusal.again else REFUSED, str(refusal))
        if call.command != "DEL":
            raise error
        log.warning("lan-detach-pending", variables=call.variables, error=error.msg)
        return None

    async def _add(self, call: Call) -> Raw:
        attachment, mtu = attachment_of(call), wanted_mtu(call.config)
        attached = await self._spokes.attach(attachment)
        if mtu and mtu != attached.mtu:
            await self._spokes.detach(attachment.container, attachment.interface)
            raise CniError(
                BAD_CONFIG,
                f"mtu: is {mtu}, but the LAN of spoke {attachment.device.spoke} has {attached.mtu}; leave it out",
            )
        return result_of(attachment, attached, call.version)

    async def _delete(self, call: Call) -> None:
        await self._spokes.detach(*place_of(call))

    async def _check(self, call: Call) -> None:
        attachment = attachment_of(call)
        mac = check_previous(call, attachment)
        if attachment.mac and attachment.mac != mac:
            raise CniError(
                DIFFERENT,
                f"interface {attachment.interface} was given MAC {mac}, and {attachment.mac} is asked for",
            )
        try:
            await self._spokes.check(attachment)
        except SpokeError as error:
            raise CniError(TRY_AGAIN if error.again else DIFFERENT, str(error)) from None

    async def _collect(self, call: Call) -> None:
        await self._spokes.collect(valid_attachments(call.config), network_name(call.config))

    async def _status(self, call: Call) -> None:
        network_name(call.config)
        if why := self._spokes.unready():
            raise CniError(NOT_AVAILABLE, why)


def cni_socket(path: Path, cni: LanCni, **options: Any) -> CallSocket:
    """The socket for the programs; `options` are those of CallSocket."""
    return CallSocket(path, cni.reply, cni.refuse, largest=LARGEST, **options)
