"""A LAN's bridge is the LAN's by its own mark, whichever feature made the other bridges."""

import pytest

from lanloom.features.dummy.rules.hostbridge import alias_of as dummy_alias_of
from lanloom.features.lan.rules.lansteps import MakeBridge
from lanloom.features.lan.rules.linksteps import alias_of
from lanloom.node.errors import NotOurs
from lanloom.node.links import KernelLink
from lanloom.node.marks import MARK
from lanloom.node.ownership import is_marked_for

UID = "2f1c7f8e-6d5b-4a39-8a53-5b1ab5c0f001"
MARKS = {
    "nobody": "",
    "vlan": MARK,
    "dummy": dummy_alias_of(UID),
    "lan": alias_of(UID),
    "admin": "uplink of the storage team",
}


@pytest.mark.parametrize("maker", MARKS)
@pytest.mark.parametrize(("uid", "was"), [(UID, ""), ("another", ""), ("another", UID)])
def test_a_bridge_is_its_owners(maker: str, uid: str, was: str) -> None:
    """A LAN takes its own bridge, that of the LAN which it follows, and one without an owner; no other."""
    links = {"br0": KernelLink(name="br0", index=3, kind="bridge", alias=MARKS[maker])}
    step = MakeBridge(ns="blue", uid=uid, name="br0", was=was)
    owned = maker in ("dummy", "lan")
    assert is_marked_for(MARKS[maker], uid, was) == (owned and UID in (uid, was))
    if owned and UID not in (uid, was):
        with pytest.raises(NotOurs, match="belongs to another LAN"):
            step.guard(links)
    else:
        step.guard(links)


@pytest.mark.parametrize(
    "alias", ["", "lanloom", "other uid", "lanloom-lan", "lanloom-lan a b", f"lanloom-lan {'x' * 64}"]
)
def test_a_mark_names_an_owner(alias: str) -> None:
    """An ifalias without an owner is marked for no object, not even for an owner that is not known."""
    assert not is_marked_for(alias, UID, "", "uid", "a b")
