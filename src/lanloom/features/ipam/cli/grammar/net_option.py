"""The option `--net` of instances: what it says, checked as far as that can be without knowing any instance.

`N:key=value,…` is a NIC of a new instance, or changes one; `N:add,…` (-1: at the end), `N:modify,…` and `N:remove` (-1:
the last) are the forms of `modify`, where N may also be a NIC's name or UUID. As in Ganeti, `add:…` adds at the end and
`remove` takes the last one away.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from lanloom.features.ipam.cli.grammar.options import Option, parse_option
from lanloom.features.ipam.rules.general import check_mode, check_vlan
from lanloom.features.ipam.rules.names import check_name, is_name, is_uuid
from lanloom.features.ipam.rules.requests import MOST, format_request, parse_mac, parse_requests
from lanloom.refusals import Malformed
from lanloom.text import quote

FLAG = "--net"
NONE, AUTO = "none", "auto"

_KEYS = ("network", "mac", "mode", "link", "vlan", "name")
_KNOWN = f"ip (or ip0), ip1, …, {', '.join(_KEYS)}"

_IP = re.compile(r"ip(0|[1-9][0-9]?)?")
_INDEX = re.compile(r"0|[1-9][0-9]?")
_LINK = re.compile(r"[!-~]{1,253}")
_GENERATED = (AUTO, "generate")


class NetStep(Struct, frozen=True, kw_only=True):
    """One `--net` option. `ident` is a NIC's index, name or UUID; empty or -1 is the last one, or the end.

    `ips` maps indices to requests or `none`. Of the others None is what the option does not mention, and an empty text
    takes away. `mac` may be `auto`. `title` quotes the option for messages.
    """

    action: Literal["add", "modify", "remove"]
    title: str
    ident: str = ""
    ips: dict[int, str] = {}
    network: str | None = None
    mac: str | None = None
    mode: str | None = None
    link: str | None = None
    vlan: str | None = None
    name: str | None = None


def new_nics(texts: Iterable[str]) -> tuple[NetStep, ...]:
    """Return the NICs of a new instance, by index.

    Raises Malformed: none, a gap, one twice, another action than add.
    """
    steps: dict[int, NetStep] = {}
    for text in texts:
        option = _option(text)
        if option.action not in ("", "add"):
            raise option.malformed(
                "a new instance has no NIC to change yet; describe one: 0:ip0=pool,network=…"
            )
        if not _INDEX.fullmatch(option.ident):
            raise option.malformed("NICs of a new instance are numbered; begin with 0: for the first one")
        if int(option.ident) in steps:
            raise option.malformed(f"NIC {option.ident} is given twice; number the NICs 0, 1, …")
        steps[int(option.ident)] = _new(option)
    if not steps:
        raise Malformed("an instance needs a NIC; give one, such as --net 0:ip0=pool,network=…")
    if gap := [index for index in range(len(steps)) if index not in steps]:
        raise Malformed(f"{FLAG} leaves a gap: NIC {gap[0]} is missing; number the NICs 0, 1, …")
    return tuple(steps[index] for index in range(len(steps)))


def changes(texts: Iterable[str]) -> tuple[NetStep, ...]:
    """Return the changes of an instance's NICs, in order. Raises Malformed."""
    steps = tuple(_change(_option(text)) for text in texts)
    if not steps:
        raise Malformed("no change is given; give one, such as --net 0:modify,ip0=pool")
    return steps


def _option(text: str) -> Option:
    """Return the option in its parts; what most people forget has its own message."""
    if "=" in text.partition(":")[0]:
        raise Malformed(f"{FLAG} {quote(text, 120)}: the NIC is missing; write its number first: 0:…")
    return parse_option(text, FLAG)


def _change(option: Option) -> NetStep:
    if option.action == "add":
        if option.ident not in ("", "-1") and not _INDEX.fullmatch(option.ident):
            raise option.malformed("a new NIC gets a number, or is added at the end with -1:add")
        return _new(option)
    if option.action == "remove":
        return NetStep(action="remove", title=_title(option), ident=option.ident)
    if not option.params and not option.bare:
        raise option.malformed(f"it changes nothing; parameters are: {_KNOWN}")
    return _step(option, "modify", _ips(option))


def _new(option: Option) -> NetStep:
    """Return a NIC that there is not yet: its addresses are numbered without a gap, or it has none."""
    ips = _ips(option)
    if ips == {0: NONE}:
        ips = {}
    if NONE in ips.values():
        raise option.malformed(
            "none can't be combined with other addresses; omit it, and number the others 0, 1, …"
        )
    if gap := [index for index in range(len(ips)) if index not in ips]:
        raise option.malformed(f"it leaves a gap: ip{gap[0]} is missing; number the addresses ip0, ip1, …")
    step = _step(option, "add", ips)
    if ips and not step.network:
        raise option.malformed("addresses belong to a network; name it with network=…")
    if step.network and (step.mode or step.link or step.vlan):
        raise option.malformed("mode, link and vlan come from the network; omit them, or network=…")
    return step


def _step(option: Option, action: Literal["add", "modify"], ips: Mapping[int, str]) -> NetStep:
    if option.bare:
        hint = quote(f"ip0={option.bare}")
        raise option.malformed(f"{quote(option.bare)} is not a parameter; for an address write {hint}")
    for key, value in option.params.items():
        if _IP.fullmatch(key) is None and key not in _KEYS:
            hint = f"; for a network write network={key}" if value is True else ""
            raise option.malformed(f"{quote(key)} is not a parameter; parameters are: {_KNOWN}{hint}")
    return NetStep(
        action=action,
        title=_title(option),
        ident=option.ident,
        ips=dict(ips),
        network=_network(option),
        mac=_mac(option),
        mode=_mode(option),
        link=_link(option),
        vlan=_vlan(option),
        name=_named(option),
    )


def _ips(option: Option) -> dict[int, str]:
    """Return the addresses by index, in order of it; `ip` is `ip0`."""
    if "ip" in option.params and "ip0" in option.params:
        raise option.malformed("ip is an alias of ip0; give one of them")
    ips: dict[int, str] = {}
    for key in option.params:
        if match := _IP.fullmatch(key):
            index = int(match[1] or 0)
            if index >= MOST:
                raise option.malformed(f"a NIC has {MOST} addresses at most; number them ip0, ip1, …")
            ips[index] = _text(option, key) or NONE
    wanted = [text for text in ips.values() if text != NONE]
    canonical = iter(map(format_request, option.read(parse_requests, wanted)))
    return {index: NONE if ips[index] == NONE else next(canonical) for index in ips}


def _mac(option: Option) -> str | None:
    text = _text(option, "mac")
    if text == "":
        raise option.malformed("a NIC always has a MAC address; write mac=auto for a new one")
    if text is None:
        return None
    return AUTO if text in _GENERATED else option.read(parse_mac, text)


def _mode(option: Option) -> str | None:
    text = _text(option, "mode")
    return option.read(check_mode, text) if text else text


def _link(option: Option) -> str | None:
    text = _text(option, "link")
    if text and not _LINK.fullmatch(text):
        raise option.malformed(f"{quote(text)} is not a link; write a name without blanks, such as br0")
    return text


def _network(option: Option) -> str | None:
    text = _text(option, "network")
    if text and not is_name(text) and not is_uuid(text):
        raise option.malformed(f"{quote(text)} is not a network; name one by its name or UUID")
    return text


def _vlan(option: Option) -> str | None:
    text = _text(option, "vlan")
    return option.read(check_vlan, text) if text else text


def _named(option: Option) -> str | None:
    text = _text(option, "name")
    if text:
        option.read(lambda name: check_name(name, "a NIC"), text)
        if text.isdigit():
            raise option.malformed(f"name {quote(text)} would be taken for a NIC's number; add a letter")
    return text


def _text(option: Option, key: str) -> str | None:
    """Return the text of a key; empty for `-key` and `key=none`, None where it is not given.

    Nothing after `key=` is what a script writes whose variable is empty: it must not take an address away.
    """
    if key not in option.params:
        return None
    value = option.params[key]
    if isinstance(value, bool) or value == "":
        raise option.malformed(f"{key} needs a value; write {key}=…, or {key}=none")
    return "" if value in (None, NONE) else value


def _title(option: Option) -> str:
    return f"{option.flag} {quote(option.text, 120)}"
