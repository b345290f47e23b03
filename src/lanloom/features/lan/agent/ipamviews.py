"""What each IPAM program may see of a node: its own files and sockets, and nothing of the agent's.

A program that only an operator knows sees the network, and the directories that the operator gave it.
"""

from pathlib import Path

from msgspec import Struct

from lanloom.features.lan.rules.ipamconfig import RESOLV_CONF
from lanloom.node.sandbox import Sandbox

NETWORKS = Path("/var/lib/cni/networks")
"""Where host-local keeps the addresses of a network, in a directory of its name."""

_CONNECTED = tuple(map(Path, ("/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", RESOLV_CONF)))
_WHEREABOUTS = tuple(
    Path(place, "cni/net.d/whereabouts.d") for place in ("/etc", "/etc/kubernetes", "/host/etc")
)


class _View(Struct, frozen=True):
    readable: tuple[Path, ...] = ()
    on_network: bool = False


_VIEWS = {
    "host-local": _View((Path(RESOLV_CONF),)),
    "static": _View(),
    "dhcp": _View((Path("/run/cni"),)),  # the daemon's socket; its network is the daemon's matter
    "whereabouts": _View((*_WHEREABOUTS, Path("/etc/hostname"), *_CONNECTED), on_network=True),
}
_UNKNOWN = _View(_CONNECTED, on_network=True)


class IpamViews:
    """`sockets` is the directory of the agent's sockets, `state` that of programs' files.

    `networks` is where host-local kept its files as long as it ran with the agent's view of the node.
    """

    def __init__(self, sockets: Path | None, state: Path | None, *, networks: Path = NETWORKS) -> None:
        self._sockets = sockets
        self._state = state
        self._networks = networks

    def sandbox(self, program: str, network: str, programs: Path, given: tuple[Path, ...]) -> Sandbox:
        """Return what a program of the directory `programs` sees for a network of CNI. It may block.

        Raises OSError.
        """
        if program == "lanloom-ipam":
            view = _View((self._sockets,) if self._sockets is not None else ())
        else:
            view = _VIEWS.get(program, _UNKNOWN)
        writable = {path: path for path in given}
        if program == "host-local":
            writable[NETWORKS / network] = self._addresses_of(network)
        return Sandbox(readable=(programs, *view.readable), writable=writable, on_network=view.on_network)

    def _addresses_of(self, network: str) -> Path:
        """Show addresses that were given before; keep all else in the agent's own directory."""
        earlier = self._networks / network
        if self._state is None or earlier.is_dir():
            return earlier
        own = self._state / "host-local" / network
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        return own
