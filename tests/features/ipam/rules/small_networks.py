"""Networks small enough to be walked over, with everything that a network can have, for property tests."""

import hypothesis.strategies as st

from lanloom.features.ipam.rules.addresses import Address, IPRange, merge, parse_cidr
from lanloom.features.ipam.rules.model import Network, Pool, Subnet

CIDRS = tuple(
    parse_cidr(text)[0]
    for text in (
        "10.0.15.224/27",
        "10.0.16.0/28",
        "10.0.16.32/30",
        "10.0.16.36/31",
        "2001:db8::fe0/123",
        "2001:db8::1000/124",
        "2001:db8::2000/128",
    )
)
"""On both sides of where a block of 4,096 addresses ends; those without edges too."""

ADDRESSES: tuple[Address, ...] = tuple(
    sorted(address for cidr in CIDRS for address in range(cidr.range.first - 1, cidr.range.last + 2))
)
"""All of them, and neighbours that are in no subnet."""


@st.composite
def ranges_within(draw: st.DrawFn, whole: IPRange) -> tuple[IPRange, ...]:
    """Ranges apart from each other, in order; they may touch."""
    cuts = sorted(draw(st.sets(st.integers(whole.first, whole.last + 1), max_size=6)))
    return tuple(IPRange(first, last - 1) for first, last in zip(cuts[::2], cuts[1::2], strict=False))


@st.composite
def subnets(draw: st.DrawFn, index: int) -> Subnet:
    """A subnet with one of the CIDRs."""
    cidr = CIDRS[index]
    pools = draw(ranges_within(cidr.range)) if draw(st.booleans()) else (cidr.range,)
    return Subnet(
        uuid=str(index),
        cidr=cidr,
        gateway=draw(st.none() | st.integers(cidr.range.first, cidr.range.last)),
        pools=tuple(
            Pool(
                range=range_,
                name=draw(st.sampled_from(("", "one", "two"))),
                disabled=draw(st.sampled_from((False, False, False, True))),
            )
            for range_ in pools
        ),
        external=merge(draw(ranges_within(cidr.range))),
    )


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """A network with some of the subnets, in any order."""
    chosen = draw(st.lists(st.sampled_from(range(len(CIDRS))), unique=True, max_size=4))
    return Network(id="net1", name="net1", subnets=tuple(draw(subnets(index)) for index in chosen))
