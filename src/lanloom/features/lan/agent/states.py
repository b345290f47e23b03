"""How each LAN is on this node, as the last look found it, and what the node reports of that."""

from collections.abc import Callable

import structlog
from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.lan import LAN, LANEntry, Spoke
from lanloom.features.lan.agent.records import LanRecords
from lanloom.features.lan.rules.desired import Endpoint, address_of
from lanloom.features.lan.rules.flood import MtuBudget
from lanloom.features.lan.rules.record import LanRecord, SpokeRecord
from lanloom.features.lan.rules.storms import Floods

log = structlog.get_logger(__name__)


class LanState(Struct, frozen=True):
    """How a LAN is on this node after a look: its own endpoint, what fits on all nodes, and what is wrong.

    `generation` is that of the LAN at which was looked.
    """

    own: Endpoint
    problem: str = ""
    budget: MtuBudget | None = None
    floods: Floods | None = None
    generation: int = 0


class LanStates:
    """The states by the uid of the LAN. `on_state` is called when what `node` reports may have changed.

    `holds_uplink` tells whether this node joins the LAN of a record to the physical VLAN that the record names.
    """

    def __init__(
        self,
        records: LanRecords,
        *,
        node: str,
        now: Callable[[], float],
        on_state: Callable[[], None],
        holds_uplink: Callable[[LanRecord], bool],
    ) -> None:
        self._records = records
        self._node = node
        self._now = now
        self._on_state = on_state
        self._holds_uplink = holds_uplink
        self._states: dict[str, LanState] = {}
        self._reported: dict[str, LANEntry] = {}

    def get(self, uid: str) -> LanState | None:
        """Return how a LAN is, None before the first look."""
        return self._states.get(uid)

    def entries(self) -> tuple[LANEntry, ...]:
        """Return what the node reports: each LAN of which it has something, by namespace and name."""
        records = self._records.by_uid.values()
        found = [self._entry(record) for record in records if self._is_reported(record)]
        return tuple(sorted(found, key=lambda entry: (entry.namespace, entry.name)))

    def note(self, uid: str, state: LanState, lan: LAN | None) -> None:
        """Take what a look at the LAN found. Of a LAN that is not carried any more nothing is kept."""
        before = self._states.get(uid)
        known = before.generation if before is not None else 0
        state = replace(state, generation=lan.metadata.generation if lan is not None else known)
        if uid not in self._records.by_uid:
            self._states.pop(uid, None)
        else:
            self._states[uid] = state
        if state.problem and (before is None or before.problem != state.problem):
            log.warning("lan-not-ready", uid=uid, reason=state.problem)
        self._report_change(uid)

    def note_failure(self, uid: str, problem: str, lan: LAN | None) -> None:
        """Take what made a look fail; the endpoint is as it was."""
        known = self._states.get(uid)
        self.note(uid, LanState(known.own if known else Endpoint(None), problem), lan)

    def _report_change(self, uid: str) -> None:
        """Wake the report with what is new. What is gone always is: the report may have it from before the start."""
        record = self._records.by_uid.get(uid)
        entry = self._entry(record) if record is not None and self._is_reported(record) else None
        if entry is None:
            self._reported.pop(uid, None)
        elif entry == self._reported.get(uid):
            return
        else:
            self._reported[uid] = entry
        self._on_state()

    def _is_reported(self, record: LanRecord) -> bool:
        return record.built or bool(record.used(self._now()))

    def _entry(self, record: LanRecord) -> LANEntry:
        state = self._states.get(record.uid, LanState(Endpoint(None), "not looked at yet"))
        return LANEntry(
            namespace=record.namespace,
            name=record.name,
            uid=record.uid,
            generation=state.generation,
            vni=record.vni,
            port=record.port,
            address=state.own.address,
            device=record.device,
            mtu=state.own.mtu,
            ready=not state.problem,
            message=state.problem,
            warning=state.floods.warning if state.floods is not None else "",
            uplink=bool(record.uplink) and self._holds_uplink(record),
            spokes=tuple(self._spoke(record, place, state) for place in record.places if place.attached),
        )

    def _spoke(self, record: LanRecord, place: SpokeRecord, state: LanState) -> Spoke:
        secured = record.options.port(place.spoke).secured
        mac = address_of(place, record, self._node) if secured else ""
        storming = state.floods is not None and place.id in state.floods.storming
        return Spoke(name=place.spoke, mode=place.mode, pod=place.pod, mac=mac, storming=storming)
