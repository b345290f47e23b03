"""The files of an image as values, and a layer as an archive that depends on nothing but them."""

import gzip
import io
import posixpath
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

Files = dict[str, "File"]
"""Files by their path, which has no leading slash."""


class File(NamedTuple):
    """A regular file, or a symbolic link where `target` is set. It belongs to root."""

    content: bytes = b""
    mode: int = 0o644
    target: str = ""


USR_MERGED = ("bin", "lib", "lib64", "sbin")
"""Links to the same names in usr, as on a Debian host. Packages may still name files by the old paths."""


def canonical(path: str) -> str:
    """Return the path without a leading `./` and within usr; ValueError for one outside of the image."""
    clean = posixpath.normpath(path).lstrip("/")
    if clean.startswith("../"):
        raise ValueError(f"{path} is outside of the image")
    return f"usr/{clean}" if clean.split("/")[0] in USR_MERGED else clean


def from_tar(archive: tarfile.TarFile) -> Iterator[tuple[str, File]]:
    """Yield the files and links of an archive; a hard link is another copy."""
    for member in archive:
        path = canonical(member.name)
        if member.issym():
            yield path, File(target=member.linkname)
        elif member.isfile() or member.islnk():
            content = archive.extractfile(member)
            assert content is not None
            # Set-id bits have no use where no user logs in.
            yield path, File(content.read(), 0o755 if member.mode & 0o100 else 0o644)


def layer(files: Mapping[str, File], modes: Mapping[str, int] | None = None) -> bytes:
    """Return an archive of the files in the order of their names, with their directories.

    `modes` names directories that have another mode than 0755.
    """
    buffer = io.BytesIO()
    directories = dict.fromkeys(directories_of(files), 0o755) | dict(modes or {})
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted((*directories, *files)):
            if path in directories:
                entry = _entry(path, tarfile.DIRTYPE, directories[path])
                archive.addfile(entry)
            else:
                _add(archive, path, files[path])
    return buffer.getvalue()


def directories_of(paths: Iterable[str]) -> set[str]:
    """Return every directory above these paths."""
    found: set[str] = set()
    for path in paths:
        while path := posixpath.dirname(path):
            found.add(path)
    return found


def _entry(path: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode = kind, mode
    return entry


def _add(archive: tarfile.TarFile, path: str, file: File) -> None:
    if file.target:
        entry = _entry(path, tarfile.SYMTYPE, 0o777)
        entry.linkname = file.target
        archive.addfile(entry)
    else:
        entry = _entry(path, tarfile.REGTYPE, file.mode)
        entry.size = len(file.content)
        archive.addfile(entry, io.BytesIO(file.content))


def packed(content: bytes) -> bytes:
    """Return the content compressed, without a name and a time."""
    return gzip.compress(content, compresslevel=zlib.Z_BEST_COMPRESSION, mtime=0)
