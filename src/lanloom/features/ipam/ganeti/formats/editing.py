"""What an upgrade or downgrade rewrites of a file: networks, and NICs of instances and of running machines."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from lanloom.features.ipam.ganeti.formats.fields import Raw
from lanloom.features.ipam.ganeti.formats.text import (
    Members,
    Style,
    items_at,
    members_at,
    rewrite,
    splice,
)
from lanloom.text import quote

Edit = tuple[int, int, str]
NetworkEdit = Callable[[Members, Raw, str], str | None]
"""Makes the text of a network anew; None where it has that form already. The text is its key, or empty in a NIC."""


class Changed(Struct, frozen=True, kw_only=True):
    """A text that was made anew, and how much of it is new.

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
        """The text with all of them."""
        text = splice(self.text, self.edits)
        return Changed(
            text=text, networks=self.networks, nics=self.nics, steps=tuple(steps), notes=tuple(notes)
        )


def config_edits(text: str, data: Raw, network: NetworkEdit, ips: "IpsEdit") -> Edits:
    """The edits of a `config.data`. Raises what the arguments raise."""
    top = members_at(text, _start(text), "the file")
    networks, nics = tuple(_networks(top, data, network)), tuple(_instances(top, data, ips))
    return Edits(text, (*networks, *nics), len(networks), len(nics))


def runtime_edits(text: str, data: list[Any], network: NetworkEdit, ips: "IpsEdit") -> Edits:
    """The edits of a KVM runtime file: its NICs, and the networks that they carry along."""
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
    """Raises Malformed where a key that an edit would meet is given twice: nobody knows which one counts."""
    config_edits(text, data, lambda found, raw, key: None, lambda nic, raw, wanted: None)


def check_runtime_keys(text: str, data: list[Any]) -> None:
    """The same of a KVM runtime file."""
    runtime_edits(text, data, lambda found, raw, key: None, lambda nic, raw, wanted: None)


def rendered(found: Members, style: Style, values: Raw, order: Iterable[str]) -> str:
    """An object with its members in that order, those of `values` with new values."""
    return rewrite(
        found, [(key, style.render(values[key], found) if key in values else None) for key in order]
    )


IpsEdit = Callable[[Members, Raw, list[tuple[str, str | None]]], str | None]
"""Makes the text of a NIC anew, from its members and what they are to become; None where there is nothing to do."""


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
    """Where the value of a whole text begins."""
    return len(text) - len(text.lstrip(" \t\r\n"))
