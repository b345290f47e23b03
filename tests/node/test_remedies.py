"""A refusal of the kernel comes with what to do."""

import errno
import os

import pytest

from lanloom.node.errors import KernelUnsupported
from lanloom.node.guards import describe
from lanloom.node.netlink.remedies import refusal, remedy
from lanloom.node.steps import (
    AddVlans,
    EnsureBond,
    EnsureBridge,
    EnsureIsolatedBridge,
    LinkStep,
    RemoveVlans,
    SetMtu,
    SetUp,
)


@pytest.mark.parametrize(
    ("step", "code", "expected"),
    [
        (EnsureBond(name="c-bo", mode="active-backup", mtu=1500), errno.EOPNOTSUPP, "modprobe bonding"),
        (EnsureBridge(name="c-br", mtu=1500), errno.EOPNOTSUPP, "modprobe bridge"),
        (
            EnsureIsolatedBridge(name="d-br", owner="u"),
            errno.EOPNOTSUPP,
            "no bridges: load them with `modprobe",
        ),
        (AddVlans(link="c-br", ids=((2, 2),)), errno.EOPNOTSUPP, "CONFIG_BRIDGE_VLAN_FILTERING"),
        (SetMtu(link="eth1", mtu=9000), errno.EINVAL, "an MTU of 9000"),
        (SetUp(link="eth1"), errno.EPERM, "NET_ADMIN"),
        (SetUp(link="c-br.7"), errno.ENETDOWN, "set its parent up first"),
    ],
)
def test_remedy(step: LinkStep, code: int, expected: str) -> None:
    """A missing feature, a missing right and an impossible MTU are named, with the way out."""
    assert expected in remedy(step, code)


@pytest.mark.parametrize(
    "step",
    [
        EnsureBond(name="c-bo", mode="active-backup", mtu=1500),
        EnsureBridge(name="c-br", mtu=1500),
        EnsureIsolatedBridge(name="d-br", owner="u"),
        AddVlans(link="c-br", ids=((2, 2),)),
        RemoveVlans(link="c-br", ids=((2, 2),)),
    ],
)
def test_missing_feature(step: LinkStep) -> None:
    """A step that needs what this kernel lacks fails as that, with the step, the kernel's word and the way out."""
    error = refusal(step, OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP)))
    assert isinstance(error, KernelUnsupported)
    assert str(error).startswith(f"{describe(step)}: Operation not supported; this kernel has no ")


def test_other_refusals() -> None:
    """What the kernel refuses for another reason, or of a NIC that can't, is not taken for a missing feature."""
    for step, code in ((SetMtu(link="eth1", mtu=9000), errno.EOPNOTSUPP), (SetUp(link="eth1"), errno.EBUSY)):
        error = refusal(step, OSError(code, os.strerror(code)))
        assert not isinstance(error, KernelUnsupported)
        assert str(error).startswith(f"{describe(step)}: ")


def test_nothing_to_say() -> None:
    """Where the kernel's own word says it all, nothing is added."""
    assert remedy(SetUp(link="eth1"), errno.EBUSY) == ""


def test_the_kernels_own_words() -> None:
    """What the kernel says about a refusal takes the place of the text for its number."""
    step = EnsureIsolatedBridge(name="d-br", owner="u")
    error = refusal(step, OSError(errno.EINVAL, "NLA_F_NESTED is missing"))
    assert str(error) == f"{describe(step)}: NLA_F_NESTED is missing"
