"""Options of the form `IDENT:ACTION,key=value,…`, as `--subnet`, `--pool` and `--net` have them.

The syntax is Ganeti's, except that an identifier may be an IPv6 address, which has colons itself: a leading `add:` or
`remove:` ends there, else the identifier ends at the first colon that is followed by an action, and a comma or the end.
Only an option without an action is split at its first colon. Keys, and the meaning of their values, are defined
elsewhere (`syntax`, `net_option`).
"""

import re
from collections.abc import Callable, Collection
from typing import Literal, TypeVar

from msgspec import Struct

from lanloom.features.ipam.rules.addresses import find_address
from lanloom.refusals import Malformed
from lanloom.text import quote

T = TypeVar("T")
U = TypeVar("U")

Action = Literal["", "add", "remove", "modify"]
Value = str | bool | None
"""Of `key=text`, of a `key` alone (True) or `no_key` (False), of `-key` (None)."""

ACTIONS: dict[str, Action] = {"add": "add", "remove": "remove", "modify": "modify"}

_LEADING = re.compile(r"(add|remove)(?::|\Z)")
_ACTED = re.compile(r"([^=,]*?):(add|remove|modify)(?=,|\Z)")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class Option(Struct, frozen=True, kw_only=True):
    """An option in its parts.

    `ident` is what it is about, empty where it names nothing (`add:…`). `action` is empty where none is written.
    `bare` is a first parameter that can't be a key, such as a range, else empty. `flag` and `text` are the option as
    it was given, for messages.
    """

    flag: str
    text: str
    ident: str = ""
    action: Action = ""
    bare: str = ""
    params: dict[str, Value] = {}

    def malformed(self, why: str) -> Malformed:
        """Return an error that quotes the option. `why` says what is wrong and what to do."""
        return _malformed(self.flag, self.text, why)

    def read(self, parse: Callable[[U], T], value: U, field: str = "") -> T:
        """Parse a value. Raises Malformed, which quotes the option, and the field if that is given."""
        try:
            return parse(value)
        except Malformed as error:
            raise self.malformed(f"{field}: {error}" if field else str(error)) from None

    def only(self, known: Collection[str]) -> None:
        """Raise Malformed for keys that are not known here."""
        if unknown := [key for key in self.params if key not in known]:
            raise self.malformed(f"{quote(unknown[0])} is not known here; possible are: {', '.join(known)}")

    def string(self, key: str) -> str | None:
        """Return the text of a key, or None where it is not given. Raises Malformed for a key without a text."""
        if key not in self.params:
            return None
        value = self.params[key]
        if not isinstance(value, str) or not value:
            raise self.malformed(f"{key} needs a value; write {key}=…")
        return value

    def boolean(self, key: str) -> bool | None:
        """`key`, `no_key`, `key=true` or `key=false`; None where it is not given. Raises Malformed."""
        if key not in self.params:
            return None
        value = self.params[key]
        found = value if isinstance(value, bool) else {"true": True, "false": False}.get(value or "")
        if found is None:
            raise self.malformed(f"{key} is either true or false; write {key}=true or {key}=false")
        return found


def parse_option(text: str, flag: str) -> Option:
    """Return an option that may name what it is about and what to do: `IDENT:action,…`, `add:…`, `remove:IDENT`.

    `flag` is the option's own name (`--net`). Raises Malformed: two actions, a key given twice, parameters of a
    removal, an empty identifier or element.
    """
    if match := _LEADING.match(text):
        return _leading(flag, text, ACTIONS[match[1]], text[match.end() :])
    if match := _ACTED.match(text):
        ident, rest = match[1], text[match.end(1) + 1 :]
    else:
        ident, _, rest = text.partition(":")
    _check_ident(flag, text, ident)
    bare, params = _parameters(flag, text, rest)
    acting = [ACTIONS[key] for key in params if key in ACTIONS]
    if len(acting) > 1:
        raise _two_actions(flag, text)
    action: Action = acting[0] if acting else ""
    if action and params.pop(action) is not True:
        raise _malformed(flag, text, f"{action} is an action and takes no value; write it alone")
    if action == "remove" and (params or bare):
        raise _malformed(flag, text, "remove takes no parameters; omit them")
    return Option(flag=flag, text=text, ident=ident, action=action, bare=bare, params=params)


def parse_parameters(text: str, flag: str) -> Option:
    """Return an option that only has parameters, as those of `add` commands: `key=value,…`, or `RANGE,key=value,…`.

    Raises Malformed.
    """
    bare, params = _parameters(flag, text, text)
    if acting := [key for key in params if key in ACTIONS]:
        raise _malformed(flag, text, f"{acting[0]} is not possible here; write the parameters alone")
    return Option(flag=flag, text=text, bare=bare, params=params)


def _leading(flag: str, text: str, action: Action, rest: str) -> Option:
    """`add:PARAMETERS` or `remove:IDENT`."""
    if _is_acted(rest.partition(",")[0]):
        raise _two_actions(flag, text)
    if action == "remove":
        if "," in rest or "=" in rest:
            raise _malformed(flag, text, "remove takes no parameters; write what to remove alone")
        return Option(flag=flag, text=text, ident=rest, action=action)
    bare, params = _parameters(flag, text, rest)
    if any(key in ACTIONS for key in params):
        raise _two_actions(flag, text)
    return Option(flag=flag, text=text, action=action, bare=bare, params=params)


def _check_ident(flag: str, text: str, ident: str) -> None:
    if not ident:
        raise _malformed(flag, text, "the identifier is missing; write it before the colon")
    if "," in ident or "=" in ident:
        raise _malformed(flag, text, f"{quote(ident)} is not an identifier; write IDENT:ACTION,key=value")
    if _is_acted(ident):
        raise _two_actions(flag, text)


def _is_acted(ident: str) -> bool:
    """Return whether an identifier has an action itself, and doesn't just end like it: 2001:db8::add is an address."""
    return _ACTED.fullmatch(ident) is not None and find_address(ident.rpartition("-")[2]) is None


def _parameters(flag: str, text: str, rest: str) -> tuple[str, dict[str, Value]]:
    bare, params = "", dict[str, Value]()
    for index, element in enumerate(rest.split(",") if rest else ()):
        if not element:
            raise _malformed(
                flag,
                text,
                "a parameter is missing between two commas or before the first one; write it, or omit a comma",
            )
        if index == 0 and _is_bare(element):
            bare = element
            continue
        key, value = _key_value(element)
        if not _KEY.fullmatch(key):
            raise _malformed(flag, text, f"{quote(element)} is not a parameter; write key=value")
        if key in params:
            raise _malformed(flag, text, f"{key} is given twice; give it once")
        params[key] = value
    return bare, params


def _is_bare(element: str) -> bool:
    return "=" not in element and not _KEY.fullmatch(_key_value(element)[0])


def _key_value(element: str) -> tuple[str, Value]:
    key, equals, value = element.partition("=")
    if equals:
        return key, value
    if key.startswith("no_"):
        return key.removeprefix("no_"), False
    if key.startswith("-"):
        return key.removeprefix("-"), None
    return key, True


def _two_actions(flag: str, text: str) -> Malformed:
    return _malformed(flag, text, "it has two actions; write one option for each")


def _malformed(flag: str, text: str, why: str) -> Malformed:
    return Malformed(f"{flag} {quote(text, 120)}: {why}")
