"""Records of a fake host."""

import asyncio

from lanloom.node.errors import RecordError
from lanloom.node.records import check_record, check_size


class FakeRecords:
    """Records in memory; each effect is a point where a process may die. `full` makes every write fail."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.full = False

    async def read(self, name: str) -> bytes | None:
        """As the port says."""
        check_record(name)
        await asyncio.sleep(0)
        return self.contents.get(name)

    async def write(self, name: str, content: bytes) -> None:
        """As the port says; a process that dies in the middle leaves the old record."""
        check_record(name)
        check_size(name, content)
        await asyncio.sleep(0)
        if self.full:
            raise RecordError(f"can't write the record {name}: No space left on device")
        self.contents[name] = content
        await asyncio.sleep(0)

    async def remove(self, name: str) -> None:
        """As the port says."""
        check_record(name)
        await asyncio.sleep(0)
        self.contents.pop(name, None)
        await asyncio.sleep(0)
