"""Which of a link's addresses others know the host by, from what the kernel lists."""

from ipaddress import ip_address, ip_interface

from hypothesis import given
from hypothesis import strategies as st

from lanloom.node.netlink.addressing import (
    IFA_F_DADFAILED,
    IFA_F_DEPRECATED,
    IFA_F_PERMANENT,
    IFA_F_TEMPORARY,
    IFA_F_TENTATIVE,
    Address,
    steadiest_first,
)


def address(cidr: str, flags: int = IFA_F_PERMANENT) -> Address:
    """One of a link."""
    return Address(1, ip_interface(cidr), flags)


OWN = address("fd00::1/64")
LINK_LOCAL = address("fe80::1/64")
LATER = st.builds(
    address,
    st.integers(2, 65535).map(lambda number: f"fd00::{number:x}/64")
    | st.integers(2, 65535).map(lambda number: f"fd00:1::{number:x}/128"),
    st.sampled_from(
        (0, IFA_F_PERMANENT, IFA_F_TEMPORARY, IFA_F_TENTATIVE, IFA_F_PERMANENT | IFA_F_DADFAILED)
    ),
)


@given(st.lists(LATER, max_size=5))
def test_what_comes_later_takes_no_place(later: list[Address]) -> None:
    """The address that a host had first stays the one that others know it by, whichever it gets later."""
    assert str(steadiest_first([*later, OWN, LINK_LOCAL])[0]) == "fd00::1"


@given(st.lists(st.sampled_from((IFA_F_TEMPORARY, IFA_F_DEPRECATED, IFA_F_TENTATIVE)), max_size=3))
def test_an_address_that_ends_is_the_last_choice(passing: list[int]) -> None:
    """One that ends soon, or that another host may have, is taken only where no other is."""
    older = [address(f"fd00::{number}/64", flag) for number, flag in enumerate(passing, 2)]
    found = steadiest_first([OWN, *older, LINK_LOCAL])
    assert [str(each) for each in (found[0], found[-1])] == ["fd00::1", "fe80::1"]
    assert len(found) == len(older) + 2


def test_the_versions() -> None:
    """IPv4 is before IPv6 in the kernel's order, link-local addresses are last, and what another host has is none."""
    listed = [
        address("10.0.0.2/24"),
        address("10.0.0.1/24", IFA_F_PERMANENT | IFA_F_TEMPORARY),
        address("169.254.0.1/16"),
        address("fd00::2/64", IFA_F_PERMANENT | IFA_F_DADFAILED),
        OWN,
        LINK_LOCAL,
    ]
    names = ["10.0.0.2", "10.0.0.1", "fd00::1", "169.254.0.1", "fe80::1"]
    assert steadiest_first(listed) == [ip_address(name) for name in names]
