"""Brings profiles into force through NetworkManager: what is not yet is asked for, patiently, and failures are kept.

What is remembered here may be lost at any moment; the worst that follows is that something is asked for once more.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping

import msgspec
import structlog

from lanloom.node.errors import NetworkManagerError, NetworkManagerMissing
from lanloom.node.ports import Connection, ConnectionPhase, LinkState, NetworkManager
from lanloom.vlan.rules.activation import Action, Verb, actions
from lanloom.vlan.rules.network import Interface, has_carrier
from lanloom.vlan.rules.profile import DHCP_TIMEOUT

log = structlog.get_logger(__name__)

PATIENCE_SECONDS = 3.0
"""How long NetworkManager may leave a profile inactive before it is told to activate it."""

RESTORE_SECONDS = 5.0
"""How long a reapply may take to bring back what was lost, before the profile is activated instead.

NetworkManager takes an address that somebody flushed while its link went down for one that it must not touch.
"""

RETRY_SECONDS = 30.0
"""How long to wait between two requests to activate a profile."""
BUILT_SECONDS = 5.0
"""How long a lease may take after the uplink was built; more means that it was asked for too early.

NetworkManager asks as soon as the bridge is there, which gets its MAC address from the bond a moment later; and nobody
answers a MAC address that is gone, so it would wait for all of its time-out.
"""


STATIC_SECONDS, DHCP_SECONDS = 15.0, DHCP_TIMEOUT + 15.0
"""How long an activation may take on a link with a carrier before it is begun anew.

NetworkManager waits for ever for the end of its search for a duplicate where the link went down and up meanwhile.
"""


class Activator:
    """One host's profiles."""

    def __init__(self, manager: NetworkManager) -> None:
        self._manager = manager
        self._due: dict[str, float] = {}
        self._failures: dict[str, str] = {}
        self._edits: dict[str, bytes] = {}
        self._activating: dict[str, float] = {}
        self._asked_for: dict[str, Verb] = {}
        self._restored: frozenset[str] = frozenset()
        self._asked: list[Action] = []
        self._in_force: frozenset[str] = frozenset()
        self._built: dict[str, float] = {}

    def take_asked(self) -> tuple[Action, ...]:
        """What NetworkManager was asked for, and agreed to, since this was called last."""
        asked, self._asked = tuple(self._asked), []
        return asked

    def uplink_built(self, interfaces: Iterable[Interface]) -> None:
        """The uplink of these interfaces was built a moment ago."""
        self._built |= dict.fromkeys(
            (item.uuid for item in interfaces if item.mode == "dhcp"), asyncio.get_running_loop().time()
        )

    async def settle(
        self, interfaces: tuple[Interface, ...], observed: LinkState | None = None
    ) -> Mapping[str, Connection] | None:
        """Asks for what is not in force yet; NetworkManager's view of the profiles, or None if it is away.

        `observed` is what the kernel has, where it is known: it shows more than NetworkManager notices.
        """
        uuids = tuple(item.uuid for item in interfaces)
        try:
            connections = await self._manager.connections(uuids)
            todo = actions(interfaces, connections, observed, self._in_force)
            todo += self._endless(interfaces, connections, observed)
            due = [action for action in todo if self._is_due(action)]
            due += [
                Action("activate", item)
                for item in interfaces
                if item.uuid in self._built and self._is_stuck(connections[item.uuid].phase, item.uuid)
            ]
            for action in due:
                await self._ask(action)
            if due:
                connections = await self._manager.connections(uuids)
        except NetworkManagerMissing:
            return None
        self._remember(interfaces, connections, observed)
        return {uuid: self._with_failure(connection) for uuid, connection in connections.items()}

    def _endless(
        self,
        interfaces: Iterable[Interface],
        connections: Mapping[str, Connection],
        observed: LinkState | None,
    ) -> tuple[Action, ...]:
        """Activations that have come to no end for longer than they may take."""
        now = asyncio.get_running_loop().time()
        running = [
            item
            for item in interfaces
            if connections[item.uuid].phase == "activating" and has_carrier(item, observed)
        ]
        self._activating = {item.uuid: self._activating.get(item.uuid, now) for item in running}
        return tuple(
            Action("activate", item)
            for item in running
            if now - self._activating[item.uuid] > (DHCP_SECONDS if item.mode == "dhcp" else STATIC_SECONDS)
        )

    def _is_due(self, action: Action) -> bool:
        """Reapplying an edit is due at once; the rest first waits a little for NetworkManager to do it by itself."""
        now, item = asyncio.get_running_loop().time(), action.interface
        if action.verb == "reapply" and self._edits.get(item.uuid) != item.content:
            self._edits[item.uuid] = item.content
            self._asked_for[item.uuid] = action.verb
            self._due[item.uuid] = now + RETRY_SECONDS
            return True
        if self._asked_for.get(item.uuid) != action.verb:
            # Another request than the last one need not wait for what became of that.
            self._asked_for[item.uuid] = action.verb
            self._due[item.uuid] = min(self._due.get(item.uuid, math.inf), now + PATIENCE_SECONDS)
        if now < self._due[item.uuid]:
            return False
        in_place = action.verb == "restore" and item.uuid not in self._restored
        self._due[item.uuid] = now + (RESTORE_SECONDS if in_place else RETRY_SECONDS)
        return True

    def _is_stuck(self, phase: ConnectionPhase, uuid: str) -> bool:
        """Whether a lease was asked for too early. It is asked for anew once."""
        late = asyncio.get_running_loop().time() - self._built[uuid] >= BUILT_SECONDS
        if phase in ("absent", "inactive") or (phase == "activating" and not late):
            return False
        del self._built[uuid]
        return phase == "activating"

    async def _ask(self, action: Action) -> None:
        item = action.interface
        log.info("profile-request", verb=action.verb, file=item.file)
        try:
            match action.verb:
                case "load":
                    await self._manager.load((item.file,))
                case "activate":
                    await self._manager.activate(item.uuid)
                case "restore" if item.uuid in self._restored:
                    await self._manager.activate(item.uuid)
                case "reapply" | "restore":
                    await self._reapply(item)
                    self._restored |= {item.uuid} if action.verb == "restore" else set()
            self._asked.append(action)
            self._activating.pop(item.uuid, None)
            self._in_force -= {item.uuid}
        except NetworkManagerMissing:
            raise
        except NetworkManagerError as error:
            log.warning("profile-request-refused", verb=action.verb, file=item.file, error=str(error))

    async def _reapply(self, item: Interface) -> None:
        try:
            await self._manager.reapply(item.uuid)
        except NetworkManagerMissing:
            raise
        except NetworkManagerError:
            await self._manager.activate(item.uuid)

    def _remember(
        self,
        interfaces: Iterable[Interface],
        connections: Mapping[str, Connection],
        observed: LinkState | None,
    ) -> None:
        """NetworkManager tries again at once after a failure: the reason must outlive that, or nobody ever sees it."""
        active = {uuid for uuid, connection in connections.items() if connection.phase == "active"}
        in_force = active - {item.interface.uuid for item in actions(interfaces, connections, observed)}
        self._in_force = (self._in_force | in_force) & connections.keys()
        self._built = {uuid: time for uuid, time in self._built.items() if uuid in connections}
        self._restored &= connections.keys() - in_force
        self._due = {uuid: due for uuid, due in self._due.items() if uuid in connections.keys() - in_force}
        self._asked_for = {uuid: verb for uuid, verb in self._asked_for.items() if uuid in self._due}
        self._edits = {key: edit for key, edit in self._edits.items() if key in connections.keys() - in_force}
        self._failures = {
            key: reason for key, reason in self._failures.items() if key in connections.keys() - active
        }
        self._failures |= {key: item.reason for key, item in connections.items() if _has_failed(item)}

    def _with_failure(self, connection: Connection) -> Connection:
        reason = self._failures.get(connection.uuid)
        if reason is None or connection.phase not in ("activating", "inactive"):
            return connection
        return msgspec.structs.replace(connection, phase="failed", reason=reason)


def _has_failed(connection: Connection) -> bool:
    """Whether the last attempt failed, be it that NetworkManager gave up or that it is at the next one already."""
    return connection.phase == "failed" or (connection.phase == "activating" and bool(connection.reason))
