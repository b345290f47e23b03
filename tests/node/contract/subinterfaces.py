"""A VLAN sub-interface of one profile, and waits for what NetworkManager makes of it."""

from lanloom.node.ports import (
    Link,
)
from tests.node.contract.node import (
    Node,
    connection,
    until,
    until_phase,
    uplink,
)
from tests.node.contract.profile import profile, static

FILE = "test-1.nmconnection"
DEVICE = "c-br.2013"
ADDRESS = "192.168.13.7/24"


def content(more: str = "", *, address: str = ADDRESS, mtu: int = 0, retries: int | None = None) -> bytes:
    """The profile with the static address; `more` are lines of its [ipv4] section."""
    text = profile(vid=2013, ipv4=f"{static(address, dad_timeout=0)}\n{more}".rstrip())
    text += f"\n[ethernet]\nmtu={mtu}\n".encode() if mtu else b""
    return text + (
        f"\n[connection]\nautoconnect-retries={retries}\n".encode() if retries is not None else b""
    )


async def load(node: Node, text: bytes) -> None:
    """Puts the profile into place and has it loaded."""
    node.plant_file(FILE, text)
    await node.host.network_manager.load((FILE,))


async def start(node: Node, text: bytes | None = None, vid: int = 2013) -> None:
    """Makes the profile active on an uplink that carries its VLAN."""
    await node.host.links.apply(uplink(vid))
    await load(node, content() if text is None else text)
    await until_phase(node, "active")


async def device(node: Node, vid: int = 2013) -> Link:
    """The profile's device."""
    return (await node.host.links.dump()).links[f"c-br.{vid}"]


async def until_addresses(node: Node, *addresses: str) -> None:
    """Waits until the device has exactly these addresses, in the kernel and for NetworkManager."""

    async def so() -> bool:
        found = await connection(node)
        return (await device(node)).addresses == found.addresses == addresses

    await until(so)


async def link_names(node: Node) -> set[str]:
    """The names of the node's links."""
    return set((await node.host.links.dump()).links)


async def is_phase(node: Node, phase: str) -> bool:
    """Whether the profile is in this phase."""
    return (await connection(node)).phase == phase
