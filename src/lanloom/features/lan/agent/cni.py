"""What the agent answers to the CNI programs of LANs: it asks the data plane, and shapes what comes back.

A DEL succeeds for whatever the data plane says, once it is a call by CNI's rules: the attachment is on record, the
reconciler ends it, and a DEL that fails would keep the pod in Terminating. The other commands fail with a number that
tells whether trying again can help.

Addresses are those of an IPAM program, which is called outside of the data plane's locks. An ADD that fails later than
that gives them back, and so does one for which a DEL came meanwhile: its addresses would never be released.
"""

import asyncio
from collections import Counter

import structlog
from msgspec.structs import replace

from lanloom.features.lan.agent.calls import (
    addresses_before,
    attachment_of,
    check_previous,
    check_type,
    ipam_type,
    result_of,
)
from lanloom.features.lan.agent.ipam import Ipam, NothingGiven
from lanloom.features.lan.agent.ports import VETH, Attached, Attachment, MtuRefused, SpokeError, SpokesPort
from lanloom.features.lan.rules.addressing import Given
from lanloom.runtime.cni.calls import (
    BAD_CONFIG,
    DIFFERENT,
    NOT_AVAILABLE,
    REFUSED,
    TRY_AGAIN,
    Call,
    CniError,
    Raw,
    valid_attachments,
)

log = structlog.get_logger(__name__)

SECONDS = {"ADD": 30.0, "DEL": 10.0, "CHECK": 15.0, "GC": 30.0, "STATUS": 5.0}
"""How long the data plane may take; the programs wait for longer."""

ROLLBACK_SECONDS = 6.0
"""How long the data plane may take to end what an ADD has begun that fails, after the time of that."""


class LanCni:
    """Answer calls by way of `spokes`, with addresses of `ipam`."""

    def __init__(
        self,
        spokes: SpokesPort,
        ipam: Ipam | None = None,
        *,
        seconds: dict[str, float] = SECONDS,
    ) -> None:
        self._spokes = spokes
        self._ipam = ipam or Ipam(None)
        self._adding: Counter[tuple[str, str]] = Counter()
        self._ended: set[tuple[str, str]] = set()
        self._seconds = seconds
        self._commands = {
            "ADD": self._add,
            "CHECK": self._check,
            "GC": self._collect,
            "STATUS": self._status,
        }

    async def answer(self, call: Call) -> Raw | None:
        """Return the result of a call. Raises CniError."""
        check_type(call)
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
        """Attach without addresses.

        A machine's are for the guest, and the link that its frames pass through has none.
        """
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
        """Delete the link first: an address is given to another pod only once no interface has it."""
        place = (call.container, call.interface)
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
                "lan-ipam-release-failed",
                container=call.container,
                interface=call.interface,
                args=call.args,
                error=error.msg,
                details=error.details,
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
        """Collect garbage of both, whichever fails; of IPAM last, as for DEL."""
        valid, network = valid_attachments(call.config), call.network_name
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
        _ = call.network_name
        if why := self._spokes.unready():
            raise CniError(NOT_AVAILABLE, why)
        if ipam_type(call.config):
            await self._ipam.run(call, "STATUS")


def _has_addresses(attachment: Attachment) -> bool:
    """Return whether the addresses are those of the pod's interface, and not of a machine behind it."""
    return attachment.device.mode == VETH and not attachment.bridged
