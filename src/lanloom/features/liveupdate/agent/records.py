"""What the agent must know of a move after it died: where the port was before, which its NADs may no longer say."""

import msgspec
import structlog
from msgspec import Struct

from lanloom.features.liveupdate.rules.port import PortBinding
from lanloom.node.ports import Records

log = structlog.get_logger(__name__)

_PREFIX = "swap-"


class MoveRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A move that has begun, written before the port is touched.

    `uid` is the swap's. `netns` is where the pod's namespace was found, and `nic` the index of the NIC in it: no other
    NIC of that pod ever has it. Records of earlier releases have 0. `leaves` and `enters` are spokes of LANs, empty for
    bridges of the node.
    """

    uid: str
    pod: str
    netns: str
    before: PortBinding
    nic: int = 0
    leaves: str = ""
    enters: str = ""


class MoveRecords:
    """The records by the swap's uid. A write is durable before it returns. Every method raises RecordError."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def read(self, uid: str) -> MoveRecord | None:
        """Return the record of a move; None for one that has not begun, or whose record can't be understood."""
        content = await self._records.read(_PREFIX + uid)
        if content is None:
            return None
        try:
            return msgspec.json.decode(content, type=MoveRecord)
        except msgspec.MsgspecError as error:
            log.error("swap-record-unreadable", uid=uid, error=str(error))
            return None

    async def write(self, record: MoveRecord) -> None:
        """Write down that a move begins."""
        await self._records.write(_PREFIX + record.uid, msgspec.json.encode(record))

    async def forget(self, uid: str) -> None:
        """Remove a record; a missing one is no error."""
        await self._records.remove(_PREFIX + uid)

    async def uids(self) -> tuple[str, ...]:
        """Return the uids of all swaps with a record."""
        return tuple(
            name.removeprefix(_PREFIX) for name in await self._records.names() if name.startswith(_PREFIX)
        )
