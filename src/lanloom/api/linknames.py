"""The names of VLAN sub-interfaces on nodes.

Apart from `names`, because the processes of bridges, of which a node runs many, do not load `hashlib`.
"""

import hashlib
from functools import lru_cache

from lanloom.api import names


def short_hash(text: str, digits: int) -> str:
    """Return the first digits of the SHA-256 of a text, for names."""
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


@lru_cache(4096)
def interface_name(cluster_network: str, vid: int) -> str:
    """Return the VLAN sub-interface: `<cn>-br.<vid>` if that fits a link's 15 characters, else `<cn cut>-<hash>.<vid>`.

    NetworkManager would cut a longer name silently, so that two networks could get the same one.
    """
    name = f"{names.bridge_name(cluster_network)}.{vid}"
    if len(name) <= names.LINK_NAME_MAX:
        return name
    tail = f"-{short_hash(cluster_network, 4)}.{vid}"
    return cluster_network[: names.LINK_NAME_MAX - len(tail)] + tail
