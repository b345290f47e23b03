"""Steps: a refusal of the kernel comes with what to do; which bridges are taken over."""

import errno
import os
from collections.abc import Mapping

import pytest

from lanloom.features.dummy.rules.hostbridge import EnsureIsolatedBridge
from lanloom.node import netlink
from lanloom.node.errors import KernelUnsupported, LinkMissing
from lanloom.node.ownership import is_made_by_plugin
from lanloom.node.ports import Link, LinkStep
from lanloom.node.steps import (
    AddVlans,
    EnsureBond,
    EnsureBridge,
    RemoveVlans,
    SetMtu,
    SetUp,
)
from tests import fakes
from tests.fakes import FakeHost, FakeSwitch
from tests.fakes.kernel import FakeKernel


@pytest.mark.parametrize(("master", "taken"), [("", True), ("vrf1", False)])
def test_a_bridge_in_a_vrf(master: str, taken: bool) -> None:
    """A bridge that was put under another link is not the plugin's."""
    bridge = Link(name="d-br", index=1, kind="bridge", ignores_routers=True, master=master)
    assert is_made_by_plugin(bridge, {"d-br": bridge}) is taken


@pytest.mark.parametrize(
    ("step", "code", "expected"),
    [
        (EnsureBond(name="c-bo", mode="active-backup", mtu=1500), errno.EOPNOTSUPP, "modprobe bonding"),
        (EnsureBridge(name="c-br", mtu=1500), errno.EOPNOTSUPP, "modprobe bridge"),
        (
            EnsureIsolatedBridge(name="d-br", owner="u"),
            errno.EOPNOTSUPP,
            "no bridge support: load it with `modprobe",
        ),
        (AddVlans(link="c-br", ids=((2, 2),)), errno.EOPNOTSUPP, "CONFIG_BRIDGE_VLAN_FILTERING"),
        (SetMtu(link="eth1", mtu=9000), errno.EINVAL, "an MTU of 9000"),
        (SetUp(link="eth1"), errno.EPERM, "NET_ADMIN"),
        (SetUp(link="c-br.7"), errno.ENETDOWN, "set its parent up first"),
    ],
)
def test_remedy(step: LinkStep, code: int, expected: str) -> None:
    """A missing feature, a missing right and an impossible MTU are named, with the way out."""
    assert expected in step.remedy(code)


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
    error = step.refusal(OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP)))
    assert isinstance(error, KernelUnsupported)
    assert str(error).startswith(f"{step.title}: Operation not supported; this kernel has no ")


def test_other_refusals() -> None:
    """What the kernel refuses for another reason, or of a NIC that can't, is not taken for a missing feature."""
    for step, code in ((SetMtu(link="eth1", mtu=9000), errno.EOPNOTSUPP), (SetUp(link="eth1"), errno.EBUSY)):
        error = step.refusal(OSError(code, os.strerror(code)))
        assert not isinstance(error, KernelUnsupported)
        assert str(error).startswith(f"{step.title}: ")


def test_nothing_to_say() -> None:
    """Where the kernel's own word says it all, nothing is added."""
    assert SetUp(link="eth1").remedy(errno.EBUSY) == ""


def test_the_kernels_own_words() -> None:
    """What the kernel says about a refusal takes the place of the text for its number."""
    step = EnsureIsolatedBridge(name="d-br", owner="u")
    error = step.refusal(OSError(errno.EINVAL, "NLA_F_NESTED is missing"))
    assert str(error) == f"{step.title}: NLA_F_NESTED is missing"


class SetAlias(LinkStep, frozen=True, kw_only=True):
    """A step as a feature adds one: nothing of the node knows it."""

    link: str
    alias: str

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't set the alias of {self.link}"

    def guard(self, links: Mapping[str, Link]) -> None:
        """Only a link that is there."""
        if self.link not in links:
            raise LinkMissing(f"{self.title}: there is no such link")


async def test_a_step_of_a_feature() -> None:
    """A step type that is registered outside is guarded and applied like any other, on the fake and by the kernel."""

    @fakes.apply.register
    def _(step: SetAlias, kernel: FakeKernel) -> None:
        kernel.change(step.link, alias=step.alias)

    @netlink.apply.register
    def _(step: SetAlias, writer: netlink.LinkWriter) -> None:
        writer.change(writer.links[step.link].index, netlink.alias(step.alias))

    host = FakeHost("n1", switch=FakeSwitch(), now=lambda: 0.0).host
    with pytest.raises(LinkMissing, match="no such link"):
        await host.links.apply((SetAlias(link="eth9", alias="x"),))
    await host.links.apply((SetAlias(link="eth1", alias="x"),))
    assert (await host.links.dump()).links["eth1"].alias == "x"
    assert netlink.apply.dispatch(SetAlias) is not netlink.apply.dispatch(LinkStep)


class Unknown(LinkStep, frozen=True, kw_only=True):
    """A step that is not registered."""

    @property
    def title(self) -> str:
        """As the base says."""
        return "can't do it"

    def guard(self, links: Mapping[str, Link]) -> None:
        """Nothing to guard."""


async def test_a_step_without_an_adapter() -> None:
    """A step type without an adapter is a programmer's error that names it, not a step that is left out in silence."""
    host = FakeHost("n1", switch=FakeSwitch(), now=lambda: 0.0).host
    with pytest.raises(TypeError, match="Unknown"):
        await host.links.apply((Unknown(),))


class Unguarded(LinkStep, frozen=True, kw_only=True):
    """A step without a guard."""

    @property
    def title(self) -> str:
        """As the base says."""
        return "can't do it"


def test_a_step_without_a_guard() -> None:
    """A step type without a guard or a title can't be instantiated."""
    with pytest.raises(TypeError, match="guard"):
        Unguarded()  # type: ignore[abstract]
    with pytest.raises(TypeError, match="title"):
        LinkStep()  # type: ignore[abstract]


def test_the_kernel_has_an_adapter_for_every_step() -> None:
    """The kernel's adapter raises a programmer's error for a step type that was not registered."""
    with pytest.raises(TypeError, match="no adapter of the kernel is registered for Unknown"):
        netlink.apply.dispatch(Unknown)(Unknown(), None)
