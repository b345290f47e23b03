"""Which kernel a lab gets, and what the user reads about it."""

import pytest

from lanloom.node.kernel import (
    BOND,
    FILTERING,
    KernelFeature,
    Probe,
    probe,
)
from lanloom_lab.errors import KernelFeatureMissing
from lanloom_lab.kernel import (
    HOST_LAB_NEEDS,
    TAP,
    SelectedKernel,
    choose,
)

ALL = tuple(Probe(feature) for feature in HOST_LAB_NEEDS)
SOME = (Probe(FILTERING, "refused"), Probe(BOND, "refused"))
TAP_WORKS = (Probe(TAP),)
TAP_FAILS = (Probe(TAP, "Operation not permitted"),)


def test_a_full_kernel_carries_the_lab() -> None:
    """Root on a kernel with every feature gets the host's kernel."""
    assert choose("auto", ALL, TAP_WORKS, root=True).kernel == "host"


def test_a_lacking_kernel_is_replaced() -> None:
    """Where features are missing, user-mode Linux is chosen and the reason names them."""
    choice = choose("auto", SOME, TAP_WORKS, root=True)
    assert choice == SelectedKernel("uml", "the host's kernel lacks bridge VLAN filtering and bonding")


def test_an_ordinary_user_gets_a_kernel_of_their_own() -> None:
    """Without root, user-mode Linux is chosen even on a full kernel."""
    assert choose("auto", ALL, TAP_WORKS, root=False) == SelectedKernel("uml", "you are not root")


def test_a_wish_for_a_lacking_kernel_is_refused() -> None:
    """`--kernel host` on a lacking kernel names the missing features and the way out."""
    with pytest.raises(
        KernelFeatureMissing, match=r"lacks bridge VLAN filtering and bonding\n.*--kernel uml"
    ):
        choose("host", SOME, (), root=True)


def test_a_wish_for_user_mode_linux_is_granted() -> None:
    """`--kernel uml` is granted on a full kernel too."""
    assert choose("uml", (), TAP_WORKS, root=True) == SelectedKernel("uml", "as you asked")


def test_a_host_without_tap_is_refused() -> None:
    """Where neither way works, the message says what is missing for both."""
    with pytest.raises(
        KernelFeatureMissing, match=r"missing: tap \(Operation not permitted\); and the host's kernel lacks"
    ):
        choose("auto", SOME, TAP_FAILS, root=True)


def test_features_are_tried() -> None:
    """A feature is present if its trial succeeds, whatever the others do."""
    good = KernelFeature("good", "a test", "true")
    bad = KernelFeature("bad", "a test", "exit 3")
    assert [item.present for item in probe((good, bad, good))] == [True, False, True]


def test_a_trial_leaves_no_links() -> None:
    """What a trial makes on the way is gone with its namespace."""
    twice = KernelFeature("bridge", "a test", "ip link add lanloom-trial type bridge")
    assert [item.present for _ in range(2) for item in probe((twice,))] == [True, True]
