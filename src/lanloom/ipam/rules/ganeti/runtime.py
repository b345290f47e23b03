"""KVM runtime files: what Ganeti keeps of a running machine, an array of command, NICs, parameters and disks.

The first versions wrote three items, later ones four and more; the NICs are always the second.
"""

from lanloom.ipam.rules.errors import Malformed
from lanloom.ipam.rules.ganeti import fields
from lanloom.ipam.rules.ganeti.config import addresses_of
from lanloom.ipam.rules.ganeti.stored import network_at

LEAST = 3


def check_runtime(data: object) -> None:
    """Raises Malformed for what is no KVM runtime file, or has a NIC or network that can't be read."""
    if not isinstance(data, list) or len(data) < LEAST:
        raise Malformed(
            "is no KVM runtime file of Ganeti's: that is an array of command, NICs and parameters"
        )
    if not isinstance(data[0], list) or not isinstance(data[1], list) or not isinstance(data[2], dict):
        raise Malformed(
            "is no KVM runtime file of Ganeti's: command and NICs should be arrays, parameters an object"
        )
    for index, item in enumerate(data[1]):
        place = f"nics[{index}]"
        raw = fields.mapping(item, place)
        addresses_of(raw, place)
        if raw.get("netinfo") is not None:
            network_at(fields.mapping(raw["netinfo"], f"{place}.netinfo"), f"{place}.netinfo")
