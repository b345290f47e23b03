"""NetworkManager's keyfiles, read: GKeyFile syntax, and Lanloom's mark in them.

The adapter of the profile directory and the fake NetworkManager share it, so that both see the same files as ours.
Profiles are rendered by the feature that wants them, not here.
"""

import re
from collections.abc import Mapping

from lanloom.node.errors import ProfileError

Keyfile = Mapping[str, Mapping[str, str]]
"""Section → key → value, escapes resolved."""

OWNER_SECTION = "user"
OWNER_KEY = "lanloom.owner"
"""`[user] lanloom.owner=<cluster network>/<vid>` marks a profile as Lanloom's; NetworkManager keeps it on a
rewrite."""

_SECTION = re.compile(r"\[([^\[\]\x00-\x1f\x7f]+)\]\s*")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"s": " ", "n": "\n", "t": "\t", "r": "\r", "\\": "\\", ";": "\\;"}


def parse(content: bytes) -> Keyfile:
    """Return the sections of a keyfile.

    A repeated section is merged and the last value of a key wins, as GKeyFile has it.
    Raises ProfileError, with the number of the line, for what GKeyFile would not read.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ProfileError(f"the profile is not UTF-8 text (byte {error.start})") from error
    sections: dict[str, dict[str, str]] = {}
    section: dict[str, str] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if heading := _SECTION.fullmatch(line):
            section = sections.setdefault(heading[1], {})
            continue
        key, separator, value = line.partition("=")
        if section is None or not separator or not key.strip():
            raise ProfileError(
                f"line {number} of the profile is neither a [section] nor a key=value in one: {line[:40]!r}"
            )
        section[key.strip()] = _unescape(value.strip(), number)
    return sections


def _unescape(value: str, number: int) -> str:
    def replace(match: re.Match[str]) -> str:
        try:
            return _ESCAPES[match[1]]
        except KeyError:
            raise ProfileError(f"line {number} of the profile has an unknown escape: \\{match[1]}") from None

    return _ESCAPE.sub(replace, value)


def owner(content: bytes) -> str:
    """Return the value of Lanloom's mark; empty for a foreign file and for one that can't be read as a keyfile."""
    try:
        return parse(content).get(OWNER_SECTION, {}).get(OWNER_KEY, "")
    except ProfileError:
        return ""
