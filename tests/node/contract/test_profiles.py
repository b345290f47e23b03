"""The contract of the port Profiles."""

import pytest

from lanloom.node.errors import ProfileError
from tests.node.contract.bed import on_node
from tests.node.contract.node import Node
from tests.node.contract.profile import profile

NAME = "c-vlan2012.nmconnection"
FOREIGN = b"[connection]\nid=office\nuuid=1\ntype=vlan\n"


@on_node
async def test_write_and_read(node: Node) -> None:
    """What was written is read, byte for byte; writing again replaces it."""
    await node.host.profiles.write(NAME, profile(1))
    await node.host.profiles.write(NAME, profile(2))
    assert await node.host.profiles.read() == {NAME: profile(2)}


@on_node
async def test_remove(node: Node) -> None:
    """A removed file is gone; removing it again is no error."""
    await node.host.profiles.write(NAME, profile())
    await node.host.profiles.remove(NAME)
    await node.host.profiles.remove(NAME)
    assert await node.host.profiles.read() == {}


@on_node
async def test_foreign_files(node: Node) -> None:
    """A file without Lanloom's mark is not read, not replaced and not removed."""
    node.plant_file("office.nmconnection", FOREIGN)
    node.plant_file("broken.nmconnection", b"\xff\xfe")
    for name in ("office.nmconnection", "broken.nmconnection"):
        with pytest.raises(ProfileError, match="does not carry Lanloom's mark"):
            await node.host.profiles.write(name, profile())
        with pytest.raises(ProfileError, match="does not carry Lanloom's mark"):
            await node.host.profiles.remove(name)
    assert await node.host.profiles.read() == {}


@on_node
async def test_hidden_files(node: Node) -> None:
    """A hidden file is not one of the profiles, even with the mark."""
    node.plant_file(".c-vlan2012.nmconnection", profile())
    assert await node.host.profiles.read() == {}


BAD_NAMES = (
    "",
    ".nmconnection",
    ".c.nmconnection",
    "../c.nmconnection",
    "a/c.nmconnection",
    "c",
    "c.conf",
    "c.nmconnection.tmp",
    "c\n.nmconnection",
    "c d.nmconnection",
    "-c.nmconnection",
    "c" * 300 + ".nmconnection",
)


@on_node
async def test_bad_names(node: Node) -> None:
    """A name that is not plainly that of a profile is refused, and nothing is written or removed."""
    for name in BAD_NAMES:
        with pytest.raises(ProfileError, match="is not a name for a profile"):
            await node.host.profiles.write(name, profile())
        with pytest.raises(ProfileError, match="is not a name for a profile"):
            await node.host.profiles.remove(name)
    assert await node.host.profiles.read() == {}
