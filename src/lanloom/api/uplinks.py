"""What an uplink may be like, and parsers of what of it reaches the kernel: for webhooks and again for the agents."""

import re
from base64 import b64decode

from lanloom.api.l3 import AnnotationError, quote

BOND_MODES = (
    "balance-rr",
    "active-backup",
    "balance-xor",
    "broadcast",
    "802.3ad",
    "balance-tlb",
    "balance-alb",
)
"""The modes of a bond; their order is the kernel's numbering."""

DEFAULT_MTU = 1500
MTU_MIN, MTU_MAX = 576, 9000
"""Bytes: what every IPv4 host must take (RFC 791), and what switches commonly take."""

TX_QUEUE_MAX = 1_000_000
"""Longest transmit queue in packets; the kernel takes any 32-bit number, which would be gigabytes of packets."""

_BASE64 = re.compile(r"[0-9A-Za-z+/]{8}", re.ASCII)
_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", re.ASCII)


def parse_mac(field: str, text: str) -> str:
    """A NIC's own address in lower case, such as 52:54:00:12:34:56. Group addresses (IEEE 802) are no NIC's.

    The six bytes in base64, as Harvester's clients write them, mean the same.
    """
    if _BASE64.fullmatch(text):
        text = b64decode(text).hex(":")
    if not _MAC.fullmatch(text):
        raise AnnotationError(field, f"is {quote(text)}; it must be a MAC address such as 52:54:00:12:34:56")
    if int(text[:2], 16) & 1 or set(text) <= {"0", ":"}:
        raise AnnotationError(field, f"is {quote(text)}, which can't be the address of a single NIC")
    return text.lower()


def parse_tx_queue_length(field: str, value: int) -> int:
    """The length of a transmit queue in packets, or 0 for the kernel's own (Harvester also writes -1 for that)."""
    if not -1 <= value <= TX_QUEUE_MAX:
        raise AnnotationError(
            field, f"is {value}; it must be 0, for the default, or from 1 to {TX_QUEUE_MAX} packets"
        )
    return max(value, 0)
