"""Take profiles down whose address another host has, or whose lease the node must not have, and try them again.

What is remembered here may be lost at any moment; the worst that follows is one request at once.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Set

import structlog

from lanloom.api.clusternetworknode import Management
from lanloom.features.vlan.rules.desired.holds import (
    DUPLICATE_ADDRESS,
    Conflict,
    Hold,
    address_conflict,
    hold,
    is_settled,
    problem,
    tried,
)
from lanloom.features.vlan.rules.desired.madeaddress import too_small
from lanloom.features.vlan.rules.desired.network import Interface, Problem
from lanloom.node.errors import NetworkManagerError, NetworkManagerMissing
from lanloom.node.ports import Connection, LinkState, NetworkManager

log = structlog.get_logger(__name__)

ANSWER_SECONDS, TRYING_SECONDS = 0.5, 4.0
"""Seconds in which another host answers that it has an address, and in which NetworkManager has it if none does."""


class AddressConflicts:
    """One host's profiles that are kept down, by UUID. `now` is the wall clock, for messages."""

    def __init__(self, manager: NetworkManager, now: Callable[[], float]) -> None:
        self._manager = manager
        self._now = now
        self._holds: dict[str, Hold] = {}
        self._tried: dict[str, tuple[bytes, bool]] = {}
        self._released: Set[str] = frozenset()
        self._grown: Set[str] = frozenset()

    async def drop(
        self,
        interfaces: Iterable[Interface],
        connections: Mapping[str, Connection],
        observed: LinkState | None,
        own: Management | None,
    ) -> bool:
        """Take down what has a conflict, with the management network `own` or another host; whether anything had one.

        A failure that is there when a content is seen first may be one of the content before: it is released. So is one
        of a profile whose IPv6 address the bridge was too small for until now. Raises NetworkManagerMissing.
        """
        items = tuple(interfaces)
        found = {item.uuid: address_conflict(item, connections[item.uuid], observed, own) for item in items}
        now = {item.uuid: (item.content, too_small(item, observed) is None) for item in items}
        fresh = {uuid for uuid, each in now.items() if self._tried.get(uuid) != each}
        failed = {uuid for uuid in fresh if (each := found[uuid]) and each.reason == DUPLICATE_ADDRESS}
        inactive = {uuid for uuid in fresh if connections[uuid].phase in ("inactive", "failed")}
        self._released = failed | (inactive & self._holds.keys())
        self._grown = {uuid for uuid in fresh if (was := self._tried.get(uuid)) and was[0] == now[uuid][0]}
        self._tried = now
        self._holds = {
            item.uuid: known
            for item in items
            if (known := self._holds.get(item.uuid)) is not None
            and item.uuid not in fresh
            and (found[item.uuid] or not is_settled(item, connections[item.uuid]))
        }
        dropped = False
        for item in items:
            conflict, known = found[item.uuid], self._holds.get(item.uuid)
            is_down = known is not None and not known.tried and connections[item.uuid].phase == "failed"
            if conflict is not None and item.uuid not in failed and not is_down:
                await self._drop(item, conflict)
                dropped = True
        return dropped

    @property
    def released(self) -> Set[str]:
        """The UUIDs of profiles that are to be activated at once: their content changed after a conflict."""
        return self._released

    @property
    def grown(self) -> Set[str]:
        """The UUIDs of profiles that are as they were, and whose bridge was too small for them until now."""
        return self._grown

    @property
    def wait(self) -> float:
        """Seconds until the next profile is to be tried again, or until it is known what came of that."""
        clock = asyncio.get_running_loop().time()
        times = {known.until for known in self._holds.values()}
        trying = any(until <= clock < until + TRYING_SECONDS for until in times)
        waits = (until - clock for until in times if until > clock)
        return min(waits, default=math.inf) if not trying else ANSWER_SECONDS

    def held(self) -> Mapping[str, float]:
        """Return when each profile that is kept down is to be tried again, by UUID, in seconds of the loop."""
        return {uuid: known.until for uuid, known in self._holds.items() if not known.tried}

    def requested(self, item: Interface) -> None:
        """Note that NetworkManager was asked to bring an interface up, whether or not it does."""
        if (known := self._holds.get(item.uuid)) is not None:
            self._holds[item.uuid] = tried(known)

    def problem(self, item: Interface) -> Problem | None:
        """Return why an interface has no address, from the conflict until it has another one."""
        known = self._holds.get(item.uuid)
        return problem(item, known) if known is not None else None

    async def _drop(self, item: Interface, found: Conflict) -> None:
        known = self._holds.get(item.uuid)
        after = hold(known, item, found, asyncio.get_running_loop().time(), self._now())
        if after != known:
            log.warning("profile-held", file=item.file, message=after.message, again_in=after.pause)
        self._holds[item.uuid] = after
        try:
            await self._manager.deactivate(item.uuid)
        except NetworkManagerMissing:
            raise
        except NetworkManagerError as error:  # the next look tries again
            log.warning("profile-not-held", file=item.file, error=str(error))
