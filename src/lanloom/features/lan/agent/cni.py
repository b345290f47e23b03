"""What the agent answers to the CNI programs of LANs: it asks the data plane, and shapes what comes back.

A DEL succeeds for whatever the data plane says, once it is a call by CNI's rules: the attachment is on record, the
reconciler ends it, and a DEL that fails would keep the pod in Terminating. The other commands fail with a number that
tells whether trying again can help.

Addresses are those of an IPAM program, which is called outside of the data plane's locks. An ADD that fails later than
that gives them back, and so does one for which a DEL came meanwhile: its addresses would be nobody's.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog
from msgspec.structs import replace

from lanloom.features.lan.agent.calls import (
    LARGEST,
    VERSIONS,
    Call,
    CallRefused,
    Raw,
    addresses_before,
    attachment_of,
    check_previous,
    decode,
    encode_error,
    encode_result,
    ipam_type,
    place_of,
    result_of,
)
from lanloom.features.lan.agent.ipam import Ipam, NothingGiven
from lanloom.features.lan.agent.ports import VETH, Attached, Attachment, MtuRefused, SpokeError, SpokesPort
from lanloom.features.lan.rules.addressing import Given
from lanloom.runtime.callsocket import (
    BAD_CONFIG,
    DIFFERENT,
    NOT_AVAILABLE,
    NOT_DECODED,
    REFUSED,
    TRY_AGAIN,
    CallSocket,
    CniError,
    network_name,
    valid_attachments,
)

SECONDS = {"ADD": 30.0, "DEL": 10.0, "CHECK": 15.0, "GC": 30.0, "STATUS": 5.0}
"""How long the data plane may take; the programs wait for longer."""

ROLLBACK_SECONDS = 6.0
"""How long the data plane may take to end what an ADD has begun that fails, after the time of that."""

Observer = Callable[[str, str, int], None]
"""Called after each call with program and command, empty where they can't be read, and the error's code, 0 for none."""

log = structlog.get_logger(__name__)


class LanCni:
    """Answer calls by way of `spokes`, with addresses of `ipam`; `observe` is told of each."""

    def __init__(
        self,
        spokes: SpokesPort,
        ipam: Ipam | None = None,
        *,
        observe: Observer = lambda _program, _command, _code: None,
        seconds: dict[str, float] = SECONDS,
    ) -> None:
        self._spokes = spokes
        self._ipam = ipam or Ipam(None)
        self._adding: Counter[tuple[str, str]] = Counter()
        self._ended: set[tuple[str, str]] = set()
        self._observe = observe
        self._seconds = seconds
        self._commands = {
            "ADD": self._add,
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
        if call.command == "DEL":
            await self._delete(call)
            return None
        seconds = self._seconds[call.command]
        try:
            async with asyncio.timeout(seconds):
                return await self._commands[call.command](call)
        except TimeoutError:
            error = CniError(TRY_AGAIN, f"the LAN was not ready within {seconds:g} s; try again later")
        except MtuRefused as refusal:
            error = CniError(BAD_CONFIG, str(refusal))
        except SpokeError as refusal:
            error = CniError(TRY_AGAIN if refusal.again else REFUSED, str(refusal))
        raise error

    async def _add(self, call: Call) -> Raw:
        attachment = attachment_of(call)
        if not ipam_type(call.config):
            return result_of(attachment, await self._spokes.attach(attachment), call.version)
        place = (attachment.container, attachment.interface)
        self._adding[place] += 1
        try:
            attached, given = await self._attached_with_addresses(call, attachment)
        except NothingGiven:
            raise
        except BaseException:
            await self._detach(place, ROLLBACK_SECONDS)
            await self._release(call)
            raise
        finally:
            self._adding -= Counter([place])
            if place not in self._adding:
                self._ended.discard(place)
        return result_of(attachment, attached, call.version, given)

    async def _attached_with_addresses(self, call: Call, attachment: Attachment) -> tuple[Attached, Given]:
        """A machine's addresses are for the guest; the link that its frames pass through has none."""
        given = await self._ipam.add(call)
        self._check_not_ended(attachment)
        if _has_addresses(attachment):
            attachment = replace(attachment, addresses=given.addresses, routes=given.resolved_routes())
        attached = await self._spokes.attach(attachment)
        self._check_not_ended(attachment)
        return attached, given

    def _check_not_ended(self, attachment: Attachment) -> None:
        if (attachment.container, attachment.interface) in self._ended:
            raise CniError(TRY_AGAIN, f"{attachment.interface} was deleted while it was being added")

    async def _delete(self, call: Call) -> None:
        """The link goes first: an address is given to another pod only once no interface has it."""
        place = place_of(call)
        if place in self._adding:
            self._ended.add(place)
        await self._detach(place, self._seconds["DEL"])
        await self._release(call)

    async def _detach(self, place: tuple[str, str], seconds: float) -> None:
        """End an attachment; what does not succeed in time is on record."""
        try:
            async with asyncio.timeout(seconds):
                await self._spokes.detach(*place)
            return
        except TimeoutError:
            why = f"not ended within {seconds:g} s"
        except SpokeError as error:
            why = str(error)
        log.warning("lan-detach-pending", container=place[0], interface=place[1], error=why)

    async def _release(self, call: Call) -> None:
        """Give addresses back. A failure is the log's only: a pod must not stay because its IPAM program is gone."""
        try:
            if ipam_type(call.config):
                await self._ipam.run(call, "DEL")
        except CniError as error:
            log.warning(
                "lan-ipam-release-failed", variables=call.variables, error=error.msg, details=error.details
            )

    async def _check(self, call: Call) -> None:
        attachment = attachment_of(call)
        mac = check_previous(call, attachment)
        if ipam_type(call.config):
            addresses = addresses_before(call, attachment) if _has_addresses(attachment) else ()
            await self._ipam.run(call, "CHECK")
            attachment = replace(attachment, addresses=addresses)
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
        """Both collect, whichever fails; IPAM last, as for DEL."""
        valid, network = valid_attachments(call.config), network_name(call.config)
        name, failure = ipam_type(call.config), None
        try:
            await self._spokes.collect(valid, network)
        except SpokeError as error:
            failure = error
        if name:
            await self._ipam.run(call, "GC")
        if failure is not None:
            raise failure

    async def _status(self, call: Call) -> None:
        network_name(call.config)
        if why := self._spokes.unready():
            raise CniError(NOT_AVAILABLE, why)
        if ipam_type(call.config):
            await self._ipam.run(call, "STATUS")


def _has_addresses(attachment: Attachment) -> bool:
    """Whether the addresses are those of the pod's interface, and not of a machine behind it."""
    return attachment.device.mode == VETH and not attachment.bridged


def cni_socket(path: Path, cni: LanCni, **options: Any) -> CallSocket:
    """The socket for the programs; `options` are those of CallSocket."""
    return CallSocket(path, cni.reply, cni.refuse, largest=LARGEST, **options)
