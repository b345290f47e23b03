"""The marks of isolated bridges, which processes of their own keep: nobody else of Lanloom's changes them.

A bridge's ifalias says for whom it was made, by the uid of an object of the API: with another object of the same name
it is another's. The kernel takes no ifalias when it makes a link, so a bridge begins under a name that tells that it is
half-made and, as a digest, for whom: whoever comes after a process that died finishes it. Several such processes
run at once on a host, even for one owner, and each may finish what another began.
"""

import re
from binascii import crc32

ISOLATED_MARK = "lanloom-dummy"
"""What the ifalias of an isolated bridge begins with; its owner follows after a space."""

_OWNER = re.compile(r"[A-Za-z0-9-]{1,63}")
_UNFINISHED = re.compile(r"lanloom-[0-9a-f]{7}")


def is_owner(text: str) -> bool:
    """Whether this can be an owner: a uid, of letters, digits and dashes, at most 63."""
    return _OWNER.fullmatch(text) is not None


def alias_of(owner: str) -> str:
    """The ifalias of an owner's bridge."""
    return f"{ISOLATED_MARK} {owner}"


def owner_of(alias: str) -> str:
    """Whose bridge has this ifalias; empty if it is not that of an isolated bridge."""
    mark, _, owner = alias.partition(" ")
    return owner if mark == ISOLATED_MARK and is_owner(owner) else ""


def unfinished_name(owner: str) -> str:
    """The name of an owner's bridge until it has its mark; renaming and marking are one message.

    28 bits of a checksum: two owners that share them finish each other's, which is harmless, and `hashlib` would
    take 4 MB of each of many processes.
    """
    return f"lanloom-{crc32(owner.encode()) & 0xFFFFFFF:07x}"


def is_unfinished_name(name: str) -> bool:
    """Whether a half-made isolated bridge can have this name."""
    return _UNFINISHED.fullmatch(name) is not None
