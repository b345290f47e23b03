"""A refusal of the kernel comes with what to do."""

import errno

import pytest

from lanloom.node.netlink.remedies import remedy
from lanloom.node.steps import AddVlans, EnsureBond, EnsureBridge, LinkStep, SetMtu, SetUp


@pytest.mark.parametrize(
    ("step", "code", "expected"),
    [
        (EnsureBond(name="c-bo", mode="active-backup", mtu=1500), errno.EOPNOTSUPP, "modprobe bonding"),
        (EnsureBridge(name="c-br", mtu=1500), errno.EOPNOTSUPP, "modprobe bridge"),
        (AddVlans(link="c-br", ids=((2, 2),)), errno.EOPNOTSUPP, "CONFIG_BRIDGE_VLAN_FILTERING"),
        (SetMtu(link="eth1", mtu=9000), errno.EINVAL, "an MTU of 9000"),
        (SetUp(link="eth1"), errno.EPERM, "NET_ADMIN"),
    ],
)
def test_remedy(step: LinkStep, code: int, expected: str) -> None:
    """A missing feature, a missing right and an impossible MTU are named, with the way out."""
    assert expected in remedy(step, code)


def test_nothing_to_say() -> None:
    """Where the kernel's own word says it all, nothing is added."""
    assert remedy(SetUp(link="eth1"), errno.EBUSY) == ""
