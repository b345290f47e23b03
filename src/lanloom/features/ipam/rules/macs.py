"""MAC addresses of NICs: what a valid one is, and new ones that nobody has."""

import re
from collections.abc import Iterable
from random import Random

from lanloom.features.ipam.rules.ledger import Exhausted
from lanloom.refusals import Denied, Malformed
from lanloom.text import quote

DEFAULT_PREFIX = "aa:00:00"
"""The first three octets where a network says nothing; Ganeti's default too, locally administered."""

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_TAILS = 1 << 24
_TRIES = 64
"""So many random tails are tried before all are searched for a free one."""


def parse_mac(text: str) -> str:
    """A MAC address of one NIC, in lower case. Raises Malformed, also for one of a group and for all zeros."""
    mac = text.lower()
    if not _MAC.fullmatch(mac):
        raise Malformed(
            f"{quote(text)} is not a MAC address; write one such as {DEFAULT_PREFIX}:12:34:56, or auto"
        )
    if int(mac[:2], 16) & 1:
        raise Malformed(f"{quote(text)} is the MAC address of a group; the second digit of a NIC's is even")
    if not mac.strip("0:"):
        raise Malformed(f"{quote(text)} is not a valid MAC address of a NIC; write another one, or auto")
    return mac


class Macs:
    """The MAC addresses that are taken, those of the operation too. `rng` makes new ones."""

    def __init__(self, taken: Iterable[str], rng: Random) -> None:
        self._taken = {mac.lower() for mac in taken}
        self._rng = rng

    def take(self, mac: str) -> str:
        """That very address. Raises Denied if a NIC has it."""
        if mac in self._taken:
            raise Denied(f"MAC address {mac} is already used by a NIC; choose another one, or mac=auto")
        self._taken.add(mac)
        return mac

    def generate(self, prefix: str) -> str:
        """A new one that begins with three octets, by default `DEFAULT_PREFIX`. Raises Exhausted."""
        prefix = prefix.lower() or DEFAULT_PREFIX
        start = self._rng.randrange(_TAILS)
        for offset in range(_TAILS):
            tail = (start + offset) % _TAILS if offset >= _TRIES else self._rng.randrange(_TAILS)
            mac = f"{prefix}:{tail >> 16:02x}:{tail >> 8 & 255:02x}:{tail & 255:02x}"
            if mac not in self._taken:
                return self.take(mac)
        raise Exhausted(
            f"every MAC address that begins with {prefix} is used; give the network another mac_prefix"
        )
