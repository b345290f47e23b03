"""The contract of the port Records."""

import pytest

from lanloom.node.errors import RecordError
from tests.node.contract.bed import on_node
from tests.node.contract.node import Node


@on_node
async def test_write_and_read(node: Node) -> None:
    """What was written is read, byte for byte; writing again replaces it, and other records stay."""
    await node.host.state.write("networks", b"\x00first")
    await node.host.state.write("other", b"")
    await node.host.state.write("networks", b"second\n")
    assert await node.host.state.read("networks") == b"second\n"
    assert await node.host.state.read("other") == b""


@on_node
async def test_missing(node: Node) -> None:
    """A record that is not there is read as None, and removing it is no error."""
    assert await node.host.runtime.read("nothing") is None
    await node.host.runtime.remove("nothing")


@on_node
async def test_remove(node: Node) -> None:
    """A removed record is gone."""
    await node.host.state.write("networks", b"x")
    await node.host.state.remove("networks")
    assert await node.host.state.read("networks") is None


@on_node
async def test_names(node: Node) -> None:
    """The names of all records are listed in order, and a record's no more once it is removed."""
    before = set(await node.host.state.names())
    await node.host.state.write("networks", b"x")
    await node.host.state.write("lan-1", b"y")
    assert await node.host.state.names() == tuple(sorted({*before, "lan-1", "networks"}))
    await node.host.state.remove("lan-1")
    assert await node.host.state.names() == tuple(sorted({*before, "networks"} - {"lan-1"}))


@on_node
async def test_state_and_runtime(node: Node) -> None:
    """What is to survive a reboot and what is not are kept apart."""
    await node.host.state.write("added", b"state")
    await node.host.runtime.write("added", b"runtime")
    assert (await node.host.state.read("added"), await node.host.runtime.read("added")) == (
        b"state",
        b"runtime",
    )


BAD_NAMES = (
    "",
    ".",
    "..",
    "a/b",
    "/etc/passwd",
    ".hidden",
    "A",
    "a.b",
    "a b",
    "a\n",
    "-a",
    "a" * 64,
    "\u00e4",
)


@pytest.mark.parametrize("name", BAD_NAMES)
@on_node
async def test_bad_names(node: Node, name: str) -> None:
    """A name that is not plainly that of a record is refused by every method."""
    with pytest.raises(RecordError, match="is not a name for a record"):
        await node.host.state.read(name)
    with pytest.raises(RecordError, match="is not a name for a record"):
        await node.host.state.write(name, b"x")
    with pytest.raises(RecordError, match="is not a name for a record"):
        await node.host.state.remove(name)


@on_node
async def test_too_large(node: Node) -> None:
    """A record of more than sixteen megabytes is refused, and the old one stays."""
    await node.host.runtime.write("networks", b"old")
    with pytest.raises(RecordError, match="is too large"):
        await node.host.runtime.write("networks", bytes((1 << 24) + 1))
    assert await node.host.runtime.read("networks") == b"old"
