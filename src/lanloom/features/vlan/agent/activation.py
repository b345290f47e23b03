"""Bring profiles into force through NetworkManager, patiently, and keep their failures.

What is remembered here may be lost at any moment; the worst that follows is one request at once.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

import msgspec
import structlog

from lanloom.api.clusternetworknode import Management
from lanloom.features.vlan.agent.conflicts import AddressConflicts
from lanloom.features.vlan.rules.desired.activation import Action, Verb, actions, promotions
from lanloom.features.vlan.rules.desired.madeaddress import MadeAddresses, removals
from lanloom.features.vlan.rules.desired.network import Interface, NodeNetwork, Problem, has_carrier
from lanloom.features.vlan.rules.desired.profile import DHCP_TIMEOUT
from lanloom.node.errors import NetworkManagerError, NetworkManagerMissing
from lanloom.node.ports import Connection, ConnectionPhase, LinkState, LinkStep, NetworkManager

log = structlog.get_logger(__name__)

PATIENCE_SECONDS = 3.0
"""Seconds that NetworkManager may leave a profile inactive before the agent activates it."""

RESTORE_SECONDS = 5.0
"""Seconds that a reapply may take to restore a loss, before the profile is activated instead.

NetworkManager takes an address that was flushed while its link went down for one that it must not touch.
"""

RETRY_SECONDS = 30.0
"""Seconds between two requests to activate a profile."""
BUILT_SECONDS = 5.0
"""Seconds that a lease may take after the uplink was built; more means that the request was too early.

NetworkManager asks as soon as the bridge is there, which gets its MAC address from the bond a moment later; and a MAC
address that is gone gets no answer, so it would wait for all of its time-out.
"""


STATIC_SECONDS, DHCP_SECONDS = 15.0, DHCP_TIMEOUT + 15.0
"""Seconds that an activation may take on a link with a carrier before it is begun again.

NetworkManager waits endlessly for the end of its search for a duplicate where the link went down and up meanwhile.
"""


class Activator:
    """One host's profiles. `now` is the wall clock, for messages."""

    def __init__(self, manager: NetworkManager, now: Callable[[], float] = time.time) -> None:
        self._manager = manager
        self._due: dict[str, float] = {}
        self._failures: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        self._edits: dict[str, bytes] = {}
        self._once: dict[str, bytes] = {}
        self._activating: dict[str, float] = {}
        self._last_verb: dict[str, Verb] = {}
        self._restored: frozenset[str] = frozenset()
        self._requested: list[Action] = []
        self._direct: list[Action] = []
        self._in_force: frozenset[str] = frozenset()
        self._built: dict[str, float] = {}
        self._conflicts = AddressConflicts(manager, now)
        self._made = MadeAddresses()
        self._corrections: tuple[LinkStep, ...] = ()

    def take_requested(self) -> tuple[Action, ...]:
        """Return the requests that NetworkManager accepted since the last call."""
        taken, self._requested = tuple(self._requested), []
        return taken

    def take_steps(self) -> tuple[LinkStep, ...]:
        """Return what the kernel itself is to be asked since the last call."""
        releases = tuple(action.release for action in self._direct if action.release is not None)
        taken = tuple(step for action in self._direct for step in action.direct or ())
        self._direct.clear()
        corrections, self._corrections = self._corrections, ()
        return (*releases, *corrections, *taken)

    def uplink_built(self, interfaces: Iterable[Interface]) -> None:
        """Note that the uplink of these interfaces was built a moment ago."""
        self._built |= dict.fromkeys(
            (item.uuid for item in interfaces if item.mode == "dhcp"), asyncio.get_running_loop().time()
        )

    def conflicts(self, networks: Iterable[NodeNetwork]) -> Mapping[str, tuple[Problem, ...]]:
        """Return the interfaces that are kept down, or are tried again, because of an address.

        Also those that wait for router advertisements or DHCPv6 in vain. By cluster network.
        """
        found = {
            network.cluster_network: tuple(filter(None, map(self._problem, network.interfaces)))
            for network in networks
        }
        return {name: problems for name, problems in found.items() if problems}

    def _problem(self, item: Interface) -> Problem | None:
        clock = asyncio.get_running_loop().time()
        return self._conflicts.problem(item) or self._made.problem(item, clock)

    @property
    def wait(self) -> float:
        """Seconds until a profile that is kept down is to be tried again."""
        return self._conflicts.wait

    async def settle(
        self,
        interfaces: tuple[Interface, ...],
        observed: LinkState | None = None,
        own: Management | None = None,
    ) -> Mapping[str, Connection] | None:
        """Ask for what is not in force yet; NetworkManager's view of the profiles, or None if it is away.

        `observed` is what the kernel has, where it is known: it shows more than NetworkManager notices. No lease is
        kept that overlaps the node's management network `own`, and no profile up whose address another host has.
        """
        uuids = tuple(item.uuid for item in interfaces)
        try:
            connections = await self._manager.connections(uuids)
            if await self._conflicts.drop(interfaces, connections, observed, own):
                connections = await self._manager.connections(uuids)
            self._hold()
            todo = actions(interfaces, connections, observed, self._in_force)
            todo += self._endless(interfaces, connections, observed)
            due = [action for action in todo if self._is_due(action)]
            due += self._changed(interfaces, due)
            due += [
                Action("activate", item)
                for item in interfaces
                if item.uuid in self._built and self._is_stuck(connections[item.uuid].phase, item.uuid)
            ]
            for action in due:
                await self._request(action)
            if due:
                connections = await self._manager.connections(uuids)
        except NetworkManagerMissing:
            return None
        self._remember(interfaces, connections, observed)
        if observed is not None:
            self._made.update(interfaces, connections, observed, asyncio.get_running_loop().time())
            removed = (removals(item, connections[item.uuid], observed) for item in interfaces)
            self._corrections = (*chain.from_iterable(removed), *promotions(interfaces, observed.links))
        return {uuid: self._with_failure(connection) for uuid, connection in connections.items()}

    def _hold(self) -> None:
        """Wait with what is kept down, and forget why failed what its bridge was too small for until now."""
        held, grown = self._conflicts.held(), self._conflicts.grown
        self._failures = {uuid: why for uuid, why in self._failures.items() if uuid not in grown}
        self._due |= held
        self._last_verb |= dict.fromkeys(held, "activate")
        self._in_force -= held.keys()

    def _changed(self, interfaces: Iterable[Interface], due: Iterable[Action]) -> Iterator[Action]:
        """Yield an activation of what was changed after a conflict, unless it is due already."""
        already = {action.interface.uuid for action in due}
        for item in interfaces:
            if item.uuid in self._conflicts.released - already:
                self._last_verb[item.uuid] = "activate"
                self._due[item.uuid] = asyncio.get_running_loop().time() + RETRY_SECONDS
                yield Action("activate", item)

    def _endless(
        self,
        interfaces: Iterable[Interface],
        connections: Mapping[str, Connection],
        observed: LinkState | None,
    ) -> tuple[Action, ...]:
        """Return activations that have come to no end for longer than they may take."""
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
        if action.verb != "load" and now < self._conflicts.held().get(item.uuid, now):
            return False
        if action.once and self._once.get(item.uuid) == item.content:
            return False
        if action.verb == "reapply" and self._edits.get(item.uuid) != item.content:
            self._edits[item.uuid] = item.content
            self._last_verb[item.uuid] = action.verb
            self._due[item.uuid] = now + RETRY_SECONDS
            return True
        if self._last_verb.get(item.uuid) != action.verb:
            # Another request than the last one need not wait for what became of that.
            self._last_verb[item.uuid] = action.verb
            self._due[item.uuid] = min(self._due.get(item.uuid, math.inf), now + PATIENCE_SECONDS)
        if now < self._due[item.uuid]:
            return False
        in_place = action.verb == "restore" and item.uuid not in self._restored
        self._due[item.uuid] = now + (RESTORE_SECONDS if in_place else RETRY_SECONDS)
        if action.once:
            self._once[item.uuid] = item.content
        return True

    def _is_stuck(self, phase: ConnectionPhase, uuid: str) -> bool:
        """Return whether a lease was asked for too early. It is asked for again once."""
        late = asyncio.get_running_loop().time() - self._built[uuid] >= BUILT_SECONDS
        if phase in ("absent", "inactive") or (phase == "activating" and not late):
            return False
        del self._built[uuid]
        return phase == "activating"

    async def _request(self, action: Action) -> None:
        item = action.interface
        log.info("profile-request", verb=action.verb, file=item.file)
        if action.verb != "load":
            self._conflicts.requested(item)
        try:
            match action.verb:
                case "load":
                    await self._manager.load((item.file,))
                case "activate":
                    await self._manager.activate(item.uuid)
                case "restore" if item.uuid in self._restored:
                    await self._manager.activate(item.uuid)
                case "reapply" | "restore":
                    if action.direct is None or action.kind != "route":
                        await self._reapply(item, restore=action.verb == "restore" and action.direct is None)
                    self._direct.append(action)
                    self._restored |= {item.uuid} if action.verb == "restore" else set()
            self._requested.append(action)
            self._refused.pop(item.uuid, None)
            self._activating.pop(item.uuid, None)
            self._in_force -= {item.uuid}
        except NetworkManagerMissing:
            raise
        except NetworkManagerError as error:
            log.warning("profile-request-refused", verb=action.verb, file=item.file, error=str(error))
            self._refused[item.uuid] = str(error)

    async def _reapply(self, item: Interface, *, restore: bool) -> None:
        try:
            await self._manager.reapply(item.uuid, restore=restore)
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
        """NetworkManager tries again at once after a failure: the reason must outlive that, or it is never seen."""
        active = {uuid for uuid, connection in connections.items() if connection.phase == "active"}
        in_force = active - {item.interface.uuid for item in actions(interfaces, connections, observed)}
        self._in_force = (self._in_force | in_force) & connections.keys()
        self._built = {uuid: time for uuid, time in self._built.items() if uuid in connections}
        self._restored &= connections.keys() - in_force
        self._due = {uuid: due for uuid, due in self._due.items() if uuid in connections.keys() - in_force}
        self._last_verb = {uuid: verb for uuid, verb in self._last_verb.items() if uuid in self._due}
        self._edits = {key: edit for key, edit in self._edits.items() if key in connections.keys() - in_force}
        self._once = {key: once for key, once in self._once.items() if key in connections.keys() - in_force}
        self._failures = {
            key: reason for key, reason in self._failures.items() if key in connections.keys() - active
        }
        self._failures |= {key: item.reason for key, item in connections.items() if _has_failed(item)}
        self._refused = {key: why for key, why in self._refused.items() if key in connections.keys() - active}

    def _with_failure(self, connection: Connection) -> Connection:
        refusal = self._refused.get(connection.uuid) if connection.phase == "inactive" else None
        reason = refusal or self._failures.get(connection.uuid)
        if reason is None or connection.phase not in ("activating", "inactive"):
            return connection
        return msgspec.structs.replace(connection, phase="failed", reason=reason)


def _has_failed(connection: Connection) -> bool:
    """Return whether the last attempt failed, even if NetworkManager is at the next one already."""
    return connection.phase == "failed" or (connection.phase == "activating" and bool(connection.reason))
