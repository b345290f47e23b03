"""What NetworkManager takes of a profile's routes, rules and DNS servers.

None of their values makes it reject a profile: what it can't read it leaves out, with a warning in its log and nothing
else, and a prefix length that can't be becomes 24. So whoever writes profiles must check them.
"""

import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Interface

from lanloom.node.ports import Rule

MAIN = 254
_ROUTE_KEY = re.compile(r"route[0-9]+")
_RULE_KEY = re.compile(r"routing-rule[0-9]+")
_RULE_WORDS = frozenset({"priority", "from", "table", "lookup", "suppress_prefixlength"})
_NAMES = {"main": str(MAIN), "default": "253", "local": "255"}


def read_routes(ipv4: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """The table and the text of each route that it installs."""
    for key, value in ipv4.items():
        if _ROUTE_KEY.fullmatch(key) and (route := _route(value)):
            yield _table(ipv4.get(f"{key}_options", "")), route


def _route(value: str) -> str:
    prefix, _, rest = value.partition(",")
    gateway, _, metric = rest.partition(",")
    address, _, length = prefix.partition("/")
    try:
        valid = length.isdigit() and int(length) <= 32
        network = IPv4Interface(f"{address}/{length if valid else 24}").network
        via = str(IPv4Address(gateway)) if gateway else ""
    except ValueError:
        return ""
    return f"{network},{via},{metric}"


def _table(options: str) -> int:
    pairs = (item.partition("=") for item in options.split(","))
    tables = [read_number(value) for key, _, value in pairs if key == "table"]
    return next((table for table in tables if table), MAIN)


def read_rules(ipv4: Mapping[str, str]) -> Iterator[str]:
    """The routing rules that it installs: those with a priority, whose every word it knows."""
    for key, value in ipv4.items():
        if _RULE_KEY.fullmatch(key) and _is_rule(value):
            yield value


def kernel_rule(value: str) -> Rule:
    """What the kernel has of a rule that `read_rules` gave."""
    words = value.split()
    found = dict(zip(words[::2], words[1::2], strict=True))
    table = found.get("table", found.get("lookup", "main"))
    source = found.get("from", "all")
    return Rule(int(found["priority"]), "" if source == "all" else source, int(_NAMES.get(table, table)))


def _is_rule(value: str) -> bool:
    words = value.split()
    found = dict(zip(words[::2], words[1::2], strict=False))
    if len(words) % 2 or not found.keys() <= _RULE_WORDS or "priority" not in found:
        return False
    table = found.get("table", found.get("lookup", "main"))
    numbers = (found["priority"], found.get("suppress_prefixlength", "0"), _NAMES.get(table, table))
    if not all(number.isdigit() and int(number) < 1 << 32 for number in numbers) or table == "0":
        return False
    source = found.get("from", "all")
    try:
        return source == "all" or bool(IPv4Interface(source))
    except ValueError:
        return False


def read_servers(value: str) -> Iterator[str]:
    """The DNS servers of a list with semicolons."""
    for item in value.split(";"):
        try:
            yield str(IPv4Address(item))
        except ValueError:
            continue


def read_number(value: str) -> int:
    """A number; 0, as if the key were not there, for what is none."""
    return int(value) if re.fullmatch(r"-?[0-9]{1,10}", value) else 0
