"""The records of what the node carries, one for each LAN, kept by the port `Records`."""

import msgspec
import structlog

from lanloom.features.lan.rules.carried import Carried
from lanloom.node.ports import Records

log = structlog.get_logger(__name__)

_PREFIX = "lan-"


class LanRecords:
    """What the node carries, by the LAN's uid; `save` and `forget` are durable before they return."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self.carried: dict[str, Carried] = {}

    async def load(self) -> None:
        """Reads all records. One that can't be understood is left out, with a line in the log. Raises RecordError."""
        for name in await self._records.names():
            if not name.startswith(_PREFIX):
                continue
            content = await self._records.read(name)
            try:
                found = msgspec.json.decode(content or b"", type=Carried)
            except msgspec.MsgspecError as error:
                log.error("lan-record-unreadable", record=name, error=str(error))
                continue
            self.carried[found.uid] = found

    async def save(self, record: Carried) -> None:
        """Writes a record that differs. Raises RecordError; the old one holds then."""
        if self.carried.get(record.uid) != record:
            await self._records.write(_PREFIX + record.uid, msgspec.json.encode(record))
            self.carried[record.uid] = record

    async def forget(self, uid: str) -> None:
        """Removes a record; a missing one is no error. Raises RecordError."""
        if uid in self.carried:
            await self._records.remove(_PREFIX + uid)
            del self.carried[uid]
