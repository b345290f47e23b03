"""Settings of this network namespace in /proc/sys/net, which rtnetlink can't change.

A setting that the kernel lacks is not needed, and a link that has gone needs none.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

_NET = Path("/proc/sys/net")

_WITHOUT_IP: Mapping[str, bytes] = {
    "ipv6/conf/all/disable_ipv6": b"1",
    "ipv6/conf/default/disable_ipv6": b"1",
    "bridge/bridge-nf-call-iptables": b"0",
    "bridge/bridge-nf-call-ip6tables": b"0",
    "bridge/bridge-nf-call-arptables": b"0",
}


def put(settings: Mapping[str, bytes]) -> None:
    """Write the settings that differ; each has its path below /proc/sys/net. Raises OSError."""
    for path, value in _differing(settings):
        with suppress(FileNotFoundError):
            path.write_bytes(value)


def isolate_ip() -> None:
    """Let the namespace take part in no IP. Raises OSError."""
    put(_WITHOUT_IP)


def is_isolated() -> bool:
    """Return whether the namespace takes part in no IP. Raises OSError."""
    return next(_differing(_WITHOUT_IP), None) is None


def silence(interface: str) -> None:
    """Let a link send nothing by itself: IPv6 would ask for its address as soon as it is up. Raises OSError."""
    put({f"ipv6/conf/{interface}/disable_ipv6": b"1"})


def ignore_routers(bridge: str) -> None:
    """Let the host take no route and no address of IPv6 from guests on a bridge. Raises OSError.

    CNI's plugin `bridge` does this before a pod joins. What gives a bridge other ports does it, too.
    """
    put({f"ipv6/conf/{bridge}/accept_ra": b"0"})


def _differing(settings: Mapping[str, bytes]) -> Iterator[tuple[Path, bytes]]:
    for name, value in settings.items():
        path = _NET / name
        with suppress(FileNotFoundError):
            if path.read_bytes().strip() != value:
                yield path, value
