"""The profile directory of a fake host, the port on it, and its records."""

import asyncio
from collections.abc import AsyncGenerator, Mapping

from msgspec import Struct

from lanloom.node.errors import ProfileError, RecordError
from lanloom.node.files import temporary_prefix
from lanloom.node.keyfile import owner
from lanloom.node.profiles import check_name, foreign
from lanloom.node.records import check_record, check_size
from tests.fakes.watches import Watchers, bursts


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

    async def names(self) -> tuple[str, ...]:
        """As the port says."""
        await asyncio.sleep(0)
        return tuple(sorted(self.contents))


class ProfileFile(Struct, frozen=True):
    """A file of the directory; `mode` holds the permission bits."""

    content: bytes
    mode: int = 0o600


class FakeDirectory:
    """The files, which survive a reboot. `full` makes every write fail as a full disk does."""

    def __init__(self) -> None:
        self.files: dict[str, ProfileFile] = {}
        self.full = False
        self.writes = 0
        self.watchers: Watchers = []

    def put(self, name: str, file: ProfileFile) -> None:
        """Writes a file, whole at once."""
        self.files[name] = file
        self._tell(name)

    def remove(self, name: str) -> None:
        """Removes a file."""
        del self.files[name]
        self._tell(name)

    def _tell(self, name: str) -> None:
        if not name.startswith("."):
            for watcher in self.watchers:
                watcher()


class FakeProfiles:
    """The port; each effect on the directory is a point where a process may die."""

    def __init__(self, directory: FakeDirectory) -> None:
        self._directory = directory

    async def read(self) -> Mapping[str, bytes]:
        """As the port says."""
        await asyncio.sleep(0)
        files = self._directory.files
        return {
            name: file.content
            for name, file in sorted(files.items())
            if not name.startswith(".") and owner(file.content)
        }

    async def write(self, name: str, content: bytes) -> None:
        """As the port says; a process that dies in the middle leaves a hidden temporary file."""
        self._check(name)
        await asyncio.sleep(0)
        if self._directory.full:
            raise ProfileError(
                f"can't write the profile {name}: No space left on device; the old file is unchanged"
            )
        temporary = f"{temporary_prefix(name)}0"
        self._directory.files[temporary] = ProfileFile(content)
        await asyncio.sleep(0)
        self._directory.put(name, self._directory.files.pop(temporary))
        self._directory.writes += 1
        await asyncio.sleep(0)

    async def remove(self, name: str) -> None:
        """As the port says."""
        self._check(name)
        await asyncio.sleep(0)
        if name in self._directory.files:
            self._directory.remove(name)
            self._directory.writes += 1
        await asyncio.sleep(0)

    def changes(self) -> AsyncGenerator[None, None]:
        """As the port says."""
        return bursts(self._directory.watchers)

    def _check(self, name: str) -> None:
        check_name(name)
        file = self._directory.files.get(name)
        if file is not None and not owner(file.content):
            raise foreign(name)
