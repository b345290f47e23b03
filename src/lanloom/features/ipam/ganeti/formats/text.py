"""Changing parts of a JSON text and leaving every other byte as it is.

Ganeti's versions write their files differently: indented or in one line, keys sorted or in the order of declaration,
floats as Python or as Haskell prints them. Rather than to imitate each of them, objects are rewritten member by member,
and what is not concerned is copied.

`config_edits` and `runtime_edits` are the edits of an upgrade or downgrade: networks, and NICs of instances and of
running machines.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from json.decoder import JSONDecoder
from typing import Any, NoReturn

from msgspec import Struct

from lanloom.features.ipam.ganeti.formats.fields import Raw
from lanloom.refusals import Malformed
from lanloom.text import quote

_MARGIN = 50
"""Calls; more than are between reading a file and rewriting a part of it."""

_MARK = "\ufeff"
"""The byte order mark of other systems' editors."""

_BLANK = re.compile(r"[ \t\n\r]*")


def _constant(name: str) -> NoReturn:
    raise Malformed(f"is not JSON: it contains {name}")


_DECODER = JSONDecoder(parse_constant=_constant)


def decode(text: str) -> Any:
    """Return the value of a whole text. Raises Malformed for whatever is no JSON."""
    if not text.strip():
        raise Malformed("is empty")
    if text.startswith(_MARK):
        raise Malformed("begins with a byte order mark; remove it")
    try:
        return _decoded(text, _MARGIN)
    except RecursionError:
        raise Malformed("is nested too deeply for a file of Ganeti") from None
    except json.JSONDecodeError as error:
        raise Malformed(f"is not JSON: {error}") from None
    except ValueError:  # Python limits the digits that it converts
        raise Malformed("contains a number that is too long for a file of Ganeti") from None


def _decoded(text: str, margin: int) -> Any:
    """Decode with so many calls on the stack that parts can be decoded again from where they are rewritten."""
    return _decoded(text, margin - 1) if margin else _DECODER.decode(text)


class Member(Struct, frozen=True):
    """A member of an object: blanks before the key, the key as it means and as it is written, what is between key and
    value, and where the value is.
    """

    lead: str
    key: str
    name: str
    between: str
    start: int
    end: int


class Members(Struct, frozen=True):
    """An object in a text, from its opening brace at `start` to `end`, after its closing one."""

    text: str
    start: int
    end: int
    members: tuple[Member, ...]
    tail: str

    @property
    def keys(self) -> list[str]:
        """The keys, in order."""
        return [member.key for member in self.members]

    def find(self, key: str) -> Member | None:
        """Return the member with that key."""
        return next((member for member in self.members if member.key == key), None)


def members_at(text: str, start: int, place: str) -> Members:
    """Return the object whose brace is at `start`, of a text that was decoded before.

    Raises Malformed for a key given twice.
    """
    found: list[Member] = []
    known: set[str] = set()
    at = start
    while True:
        after = _blank(text, at + 1)
        if text[after] == "}":
            return Members(text, start, after + 1, tuple(found), text[at + 1 : after])
        key, colon = _DECODER.raw_decode(text, after)
        value = _blank(text, _blank(text, colon) + 1)
        _, end = _DECODER.raw_decode(text, value)
        if key in known:
            raise Malformed(f"{place}: {json.dumps(key)} occurs twice; remove one of them")
        known.add(key)
        found.append(Member(text[at + 1 : after], key, text[after:colon], text[colon:value], value, end))
        at = _blank(text, end)
        if text[at] == "}":
            return Members(text, start, at + 1, tuple(found), text[end:at])


def items_at(text: str, start: int) -> list[int]:
    """Return where the items of an array begin, in a text that was decoded before."""
    found: list[int] = []
    at = start
    while True:
        value = _blank(text, at + 1)
        if text[value] == "]":
            return found
        found.append(value)
        _, end = _DECODER.raw_decode(text, value)
        at = _blank(text, end)
        if text[at] == "]":
            return found


class Style(Struct, frozen=True):
    """How a text is written: blanks by which each level is indented (0: in one line), and whether `/` is escaped."""

    indent: int
    slashes: bool

    def render(self, value: object, like: Members) -> str:
        """Return a new value of a member of `like`, written as the rest of it is."""
        if self.indent:
            lead = like.members[0].lead if like.members else "\n"
            text = json.dumps(value, indent=self.indent).replace("\n", lead)
        else:
            separators = (f",{_lead(like)}", like.members[0].between if like.members else ":")
            text = json.dumps(value, separators=separators)
        return text.replace("/", "\\/") if self.slashes else text


def style_of(text: str) -> Style:
    """Return the style of a text, determined from its first lines."""
    found = re.match(r"[ \t\r\n]*[\[{][ \t\r]*\n( *)", text)
    return Style(len(found[1]) if found else 0, "\\/" in text)


def rewrite(like: Members, wanted: Sequence[tuple[str, str | None]]) -> str:
    """Return an object with the members `wanted`, in that order.

    They are key and text of the value, None for the value that is there.
    Members that are there keep their own blanks.
    """
    parts = []
    for index, (key, value) in enumerate(wanted):
        own = like.find(key)
        first = like.members[0] if like.members else Member("", "", "", ":", 0, 0)
        lead = first.lead if index == 0 else own.lead if own not in (None, first) else _lead(like)
        name = own.name if own else json.dumps(key)
        shown = like.text[own.start : own.end] if value is None and own is not None else value
        parts.append(f"{lead}{name}{(own or first).between}{shown}")
    return "{" + ",".join(parts) + like.tail + "}"


def splice(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """Return the text with some parts, given as start, end and what to put there, replaced. They must not overlap."""
    parts, at = [], 0
    for start, end, new in sorted(edits):
        parts += [text[at:start], new]
        at = end
    return "".join((*parts, text[at:]))


def _blank(text: str, at: int) -> int:
    """Return the position after blanks."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _lead(like: Members) -> str:
    """Return the blanks before a member that is not the first."""
    if len(like.members) > 1:
        return like.members[1].lead
    only = like.members[0] if like.members else Member("", "", "", ":", 0, 0)
    return only.lead or (" " if only.between.endswith(" ") else "")


Edit = tuple[int, int, str]
NetworkEdit = Callable[[Members, Raw, str], str | None]
"""Makes the text of a network again; None where it has that form already. The text is its key, or empty in a NIC."""


class Changed(Struct, frozen=True, kw_only=True):
    """A text that was made again, and how much of it is new.

    `steps` tell what becomes of each network, `notes` what was corrected.
    """

    text: str
    networks: int = 0
    nics: int = 0
    steps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Edits(Struct, frozen=True):
    """Edits of a text, and how many networks and NICs they concern."""

    text: str
    edits: tuple[Edit, ...]
    networks: int
    nics: int

    def changed(self, steps: Iterable[str] = (), notes: Iterable[str] = ()) -> Changed:
        """Return the text with all of them."""
        text = splice(self.text, self.edits)
        return Changed(
            text=text, networks=self.networks, nics=self.nics, steps=tuple(steps), notes=tuple(notes)
        )


def config_edits(text: str, data: Raw, network: NetworkEdit, ips: "IpsEdit") -> Edits:
    """Return the edits of a `config.data`. Raises what the arguments raise."""
    top = members_at(text, _start(text), "the file")
    networks, nics = tuple(_networks(top, data, network)), tuple(_instances(top, data, ips))
    return Edits(text, (*networks, *nics), len(networks), len(nics))


def runtime_edits(text: str, data: list[Any], network: NetworkEdit, ips: "IpsEdit") -> Edits:
    """Return the edits of a KVM runtime file: its NICs, and the networks that they carry along."""
    edits, networks, nics = [], 0, 0
    for start, raw in zip(items_at(text, items_at(text, _start(text))[1]), data[1], strict=True):
        nic = members_at(text, start, "nics")
        wanted = dict.fromkeys(nic.keys)
        inner = nic.find("netinfo")
        if inner is not None and isinstance(raw["netinfo"], dict):
            info = members_at(text, inner.start, "netinfo")
            wanted["netinfo"] = network(info, raw["netinfo"], "")
            networks += wanted["netinfo"] is not None
        edited = ips(nic, raw, list(wanted.items()))
        nics += edited is not None
        if edited is None and wanted.get("netinfo") is not None:
            edited = rewrite(nic, list(wanted.items()))
        if edited is not None:
            edits.append((nic.start, nic.end, edited))
    return Edits(text, tuple(edits), networks, nics)


def check_config_keys(text: str, data: Raw) -> None:
    """Raise Malformed where a key that an edit would meet is given twice: it is unknown which one counts."""
    config_edits(text, data, lambda found, raw, key: None, lambda nic, raw, wanted: None)


def check_runtime_keys(text: str, data: list[Any]) -> None:
    """Check the keys of a KVM runtime file in the same way."""
    runtime_edits(text, data, lambda found, raw, key: None, lambda nic, raw, wanted: None)


def rendered(found: Members, style: Style, values: Raw, order: Iterable[str]) -> str:
    """Return an object with its members in that order, those of `values` with new values."""
    return rewrite(
        found, [(key, style.render(values[key], found) if key in values else None) for key in order]
    )


IpsEdit = Callable[[Members, Raw, list[tuple[str, str | None]]], str | None]
"""Makes the text of a NIC again, from its members and what they are to become; None where there is nothing to do."""


def ips_upgrade(style: Style) -> IpsEdit:
    """`ip: x` becomes `ips: [x]`."""

    def edit(nic: Members, raw: Raw, wanted: list[tuple[str, str | None]]) -> str | None:
        if "ip" not in raw:
            return None
        value = style.render([raw["ip"]] if raw["ip"] else [], nic)
        return rewrite(nic, [("ips", value) if key == "ip" else (key, text) for key, text in wanted])

    return edit


def ips_downgrade(style: Style) -> IpsEdit:
    """`ips: [x]` becomes `ip: x`; there is one address at the most."""

    def edit(nic: Members, raw: Raw, wanted: list[tuple[str, str | None]]) -> str | None:
        if "ips" not in raw:
            return None
        value = style.render(raw["ips"][0] if raw["ips"] else None, nic)
        return rewrite(nic, [("ip", value) if key == "ips" else (key, text) for key, text in wanted])

    return edit


def _networks(top: Members, data: Raw, network: NetworkEdit) -> Iterator[Edit]:
    member = top.find("networks")
    if member is None or not data["networks"]:
        return
    for item in members_at(top.text, member.start, "networks").members:
        found = members_at(top.text, item.start, f"networks[{quote(item.key)}]")
        edited = network(found, data["networks"][item.key], item.key)
        if edited is not None:
            yield found.start, found.end, edited


def _instances(top: Members, data: Raw, ips: IpsEdit) -> Iterator[Edit]:
    member = top.find("instances")
    if member is None:
        return
    for item in members_at(top.text, member.start, "instances").members:
        place = f"instances[{quote(item.key)}]"
        nics = members_at(top.text, item.start, place).find("nics")
        raws = data["instances"][item.key].get("nics")
        if nics is None or not raws:
            continue
        for start, raw in zip(items_at(top.text, nics.start), raws, strict=True):
            nic = members_at(top.text, start, f"{place}.nics")
            edited = ips(nic, raw, [(key, None) for key in nic.keys])
            if edited is not None:
                yield nic.start, nic.end, edited


def _start(text: str) -> int:
    """Return where the value of a whole text begins."""
    return len(text) - len(text.lstrip(" \t\r\n"))
