"""The settings by which a LAN's namespace, or one link, takes part in no IP. All functions run inside of it."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_ISOLATED: Mapping[str, bytes] = {
    "ipv6/conf/all/disable_ipv6": b"1",
    "ipv6/conf/default/disable_ipv6": b"1",
    "bridge/bridge-nf-call-iptables": b"0",
    "bridge/bridge-nf-call-ip6tables": b"0",
    "bridge/bridge-nf-call-arptables": b"0",
}
"""Below /proc/sys/net. What a kernel has not needs no setting."""


def isolate_ip() -> None:
    """Write the settings that differ. Raises OSError."""
    for name, value in _ISOLATED.items():
        path = Path("/proc/sys/net") / name
        with suppress(FileNotFoundError):
            if path.read_bytes().strip() != value:
                path.write_bytes(value)


def silence(interface: str) -> None:
    """Let a link of the namespace send nothing by itself: IPv6 would ask for its address as soon as it is up."""
    with suppress(FileNotFoundError):
        Path("/proc/sys/net/ipv6/conf", interface, "disable_ipv6").write_bytes(b"1")


def is_isolated() -> bool:
    """Return whether all settings are as they should be."""
    for name, value in _ISOLATED.items():
        with suppress(FileNotFoundError):
            if (Path("/proc/sys/net") / name).read_bytes().strip() != value:
                return False
    return True
