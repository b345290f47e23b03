"""Records in a directory of the agent's own: `/var/lib/lanloom` is kept, `/run/lanloom` is gone after a reboot."""

import asyncio
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from lanloom.node.errors import RecordError

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


def check_record(name: str) -> None:
    """Raises RecordError unless `name` is that of a record, nothing that a path could mistake."""
    if not _NAME.fullmatch(name):
        raise RecordError(f"{name!r} is not a name for a record: lower-case letters, digits and dashes only")


class RecordDirectory:
    """Records as files of `directory`, which is made when the first is written."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def read(self, name: str) -> bytes | None:
        """As the port says."""
        check_record(name)
        return await asyncio.to_thread(self._read, name)

    async def write(self, name: str, content: bytes) -> None:
        """As the port says."""
        check_record(name)
        await asyncio.to_thread(self._write, name, content)

    async def remove(self, name: str) -> None:
        """As the port says."""
        check_record(name)
        await asyncio.to_thread(self._remove, name)

    def _read(self, name: str) -> bytes | None:
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("read", name, error) from error

    def _write(self, name: str, content: bytes) -> None:
        temporary = self._directory / f".{name}.{secrets.token_hex(8)}"
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.rename(self._directory / name)
            self._sync()
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise self._failed("write", name, error) from error

    def _remove(self, name: str) -> None:
        try:
            (self._directory / name).unlink()
            self._sync()
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._failed("remove", name, error) from error

    def _sync(self) -> None:
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _failed(self, verb: str, name: str, error: OSError) -> RecordError:
        return RecordError(
            f"can't {verb} the record {name} in {self._directory}: {error.strerror}; check that the directory can be "
            "written and has free space"
        )
