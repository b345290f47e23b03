"""The records of what the node carries, one for each LAN, kept by the port `Records`."""

from collections import Counter

import msgspec
import structlog

from lanloom.features.lan.rules.record import LanRecord, SpokeRecord
from lanloom.node.ports import Records

log = structlog.get_logger(__name__)

_PREFIX = "lan-"


class LanRecords:
    """What the node carries, by the LAN's uid; `save` and `forget` are durable before they return.

    `taken` counts the places that have an index.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        self.by_uid: dict[str, LanRecord] = {}
        self._indices: dict[str, dict[str, int]] = {}
        self.taken: Counter[int] = Counter()

    async def load(self) -> None:
        """Read all records. One that can't be understood is left out, with a line in the log. Raises RecordError."""
        for name in await self._records.names():
            if not name.startswith(_PREFIX):
                continue
            content = await self._records.read(name)
            try:
                found = msgspec.json.decode(content or b"", type=LanRecord)
            except msgspec.MsgspecError as error:
                log.error("lan-record-unreadable", record=name, error=str(error))
                continue
            self._keep(found.uid, found)

    async def save(self, record: LanRecord) -> None:
        """Write a record that differs. Raises RecordError; the old one holds then."""
        if self.by_uid.get(record.uid) != record:
            await self._records.write(_PREFIX + record.uid, msgspec.json.encode(record))
            self._keep(record.uid, record)

    async def forget(self, uid: str) -> None:
        """Remove a record; a missing one is no error. Raises RecordError."""
        if uid in self.by_uid:
            await self._records.remove(_PREFIX + uid)
            self._keep(uid, None)

    def index_of(self, device: str) -> int:
        """Return the index of a device in whatever LAN has it, 0 for none."""
        return next(iter(self._indices.get(device, {}).values()), 0)

    def _keep(self, uid: str, record: LanRecord | None) -> None:
        before = self.by_uid.get(uid)
        for place in before.places if before is not None else ():
            if place.index:
                self._release(uid, place)
        for place in record.places if record is not None else ():
            if place.index:
                self._indices.setdefault(place.id, {})[uid] = place.index
                self.taken[place.index] += 1
        if record is not None:
            self.by_uid[uid] = record
        else:
            del self.by_uid[uid]

    def _release(self, uid: str, place: SpokeRecord) -> None:
        """Release what has no entry: it has no owner."""
        del self._indices[place.id][uid]
        if not self._indices[place.id]:
            del self._indices[place.id]
        self.taken[place.index] -= 1
        if not self.taken[place.index]:
            del self.taken[place.index]
