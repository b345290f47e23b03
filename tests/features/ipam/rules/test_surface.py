"""Every option of `network add` and `network modify` that the command surface has, and what it does."""

import pytest

from lanloom.features.ipam.cli.grammar.syntax import add_steps, old_subnets
from lanloom.features.ipam.rules.change import apply
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network
from lanloom.refusals import Malformed
from tests.features.ipam.rules.network_text import (
    lines,
    modified,
    network_with,
    uuid,
)

NET1 = network_with(
    "cidr=192.0.2.0/24,gateway=192.0.2.1",
    "cidr=10.0.0.0/24,name=ten",
    pools=["192.0.2.10-192.0.2.100,name=pool1"],
)
BEFORE = ["192.0.2.0/24 via 192.0.2.1", "  pool 192.0.2.10-192.0.2.100 (pool1)", "10.0.0.0/24 (ten)"]

SUBNETS = {
    "add:cidr=10.1.0.0/24,gateway=10.1.0.1,dhcp=true": [*BEFORE, "10.1.0.0/24 via 10.1.0.1 dhcp"],
    "add:cidr=2001::/64,gateway=2001::1,dhcp=true": [*BEFORE, "2001::/64 via 2001::1 dhcp"],
    "add:cidr=10.1.0.0/27,pool": [*BEFORE, "10.1.0.0/27", "  pool 10.1.0.0-10.1.0.31"],
    "add:cidr=10.1.0.0/27,no_pool,no_dhcp,-gateway,-name": [*BEFORE, "10.1.0.0/27"],
    "add:cidr=10.1.0.0/27,gateway=none,dhcp": [*BEFORE, "10.1.0.0/27 dhcp"],
    "ten:remove": BEFORE[:2],
    "remove:ten": BEFORE[:2],
    "10.0.0.0/24:remove": BEFORE[:2],
    f"{uuid(2)}:remove": BEFORE[:2],
    f"remove:{uuid(2)}": BEFORE[:2],
    "ten:modify,dhcp=true,name=foo": [*BEFORE[:2], "10.0.0.0/24 dhcp (foo)"],
    "ten:modify,-name,no_dhcp": [*BEFORE[:2], "10.0.0.0/24"],
    "192.0.2.0/24:modify,cidr=192.0.2.0/22": ["192.0.0.0/22 via 192.0.2.1", *BEFORE[1:]],
    "192.0.2.0/24:modify,gateway=192.0.2.200": ["192.0.2.0/24 via 192.0.2.200", *BEFORE[1:]],
    "192.0.2.0/24:modify,gateway=none": ["192.0.2.0/24", *BEFORE[1:]],
    "192.0.2.0/24:modify,-gateway": ["192.0.2.0/24", *BEFORE[1:]],
}


@pytest.mark.parametrize("option", SUBNETS)
def test_options_of_subnets(option: str) -> None:
    """Each form of `--subnet` does what it says."""
    assert lines(modified(NET1, subnets=[option]).network) == SUBNETS[option]


def _pool_cases() -> dict[str, list[str]]:
    first, pool, ten = BEFORE
    return {
        "add:192.0.2.110-192.0.2.120,name=pool2": [
            first,
            pool,
            "  pool 192.0.2.110-192.0.2.120 (pool2)",
            ten,
        ],
        "add:192.0.2.2,name=pool1": [first, "  pool 192.0.2.2 (pool1)", pool, ten],
        "add:10.0.0.100": [*BEFORE, "  pool 10.0.0.100"],
        "add:10.0.0.0/27": [*BEFORE, "  pool 10.0.0.0-10.0.0.31"],
        "add:subnet=ten": [*BEFORE, "  pool 10.0.0.0-10.0.0.255"],
        "add:subnet=10.0.0.0/24,name=all,disabled": [*BEFORE, "  pool 10.0.0.0-10.0.0.255 (all) disabled"],
        f"add:subnet={uuid(2)}": [*BEFORE, "  pool 10.0.0.0-10.0.0.255"],
        "pool1:modify,name=bar": [first, "  pool 192.0.2.10-192.0.2.100 (bar)", ten],
        "192.0.2.10-192.0.2.100:modify,-name": [first, "  pool 192.0.2.10-192.0.2.100", ten],
        "pool1:modify,disabled=true": [first, "  pool 192.0.2.10-192.0.2.100 (pool1) disabled", ten],
        "pool1:modify,no_disabled": BEFORE,
        "remove:192.0.2.20-192.0.2.50": [
            first,
            "  pool 192.0.2.10-192.0.2.19 (pool1)",
            "  pool 192.0.2.51-192.0.2.100 (pool1)",
            ten,
        ],
        "192.0.2.0/27:remove": [first, "  pool 192.0.2.32-192.0.2.100 (pool1)", ten],
        "pool1:remove": [first, ten],
        "remove:pool1": [first, ten],
        "remove:192.0.2.10-192.0.2.100": [first, ten],
    }


POOLS = _pool_cases()


@pytest.mark.parametrize("option", POOLS)
def test_options_of_pools(option: str) -> None:
    """Each form of `--pool` does what it says."""
    assert lines(modified(NET1, pools=[option]).network) == POOLS[option]


def test_options_of_reserved_addresses() -> None:
    """Reserved addresses are ranges, addresses and CIDRs, several with commas between them."""
    network = modified(NET1, add="192.0.2.20-192.0.2.50,10.0.0.5,10.0.0.16/30").network
    assert lines(network) == [
        *BEFORE[:2],
        "  reserved 192.0.2.20-192.0.2.50",
        BEFORE[2],
        "  reserved 10.0.0.5",
        "  reserved 10.0.0.16-10.0.0.19",
    ]
    fewer = modified(network, remove="192.0.2.30,10.0.0.5,10.0.0.17-10.0.0.18").network
    assert [line for line in lines(fewer) if "reserved" in line] == [
        "  reserved 192.0.2.20-192.0.2.29",
        "  reserved 192.0.2.31-192.0.2.50",
        "  reserved 10.0.0.16",
        "  reserved 10.0.0.19",
    ]


def added(**options: str) -> Network:
    """What the deprecated options of `add` make."""
    empty = Network(id="net1", name="net1")
    steps = add_steps(old=old_subnets(**options))
    return apply(empty, steps, Ledger(empty), lambda: uuid(1)).network


def test_an_l2_network_has_no_subnet() -> None:
    """Without options a network is L2 only."""
    assert added().subnets == ()


def test_the_deprecated_options() -> None:
    """`--network` makes a subnet with a pool over all of it, `--network6` one without a pool."""
    network = added(
        network="192.0.2.0/28", gateway="192.0.2.5", network6="2001:db8::/64", gateway6="2001:db8::1"
    )
    assert lines(network) == [
        "192.0.2.0/28 via 192.0.2.5",
        "  pool 192.0.2.0-192.0.2.15",
        "2001:db8::/64 via 2001:db8::1",
    ]
    subnet = network.subnets[0]
    every = range(subnet.cidr.range.first, subnet.cidr.range.last + 1)
    taken = [any(address in item for item in subnet.reserved) for address in every]
    assert "".join("X" if one else "." for one in taken) == "X....X.........X"


def test_reserving_while_adding() -> None:
    """`--add-reserved-ips` can be given when the network is made."""
    network = network_with("cidr=192.0.2.0/24,pool", reserved="192.0.2.7")
    assert lines(network) == ["192.0.2.0/24", "  pool 192.0.2.0-192.0.2.255", "  reserved 192.0.2.7"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gateway": "192.0.2.1"}, "--network"),
        ({"gateway6": "2001:db8::1"}, "--network6"),
        ({"network": "2001:db8::/64"}, "IPv4"),
        ({"network6": "192.0.2.0/24"}, "IPv6"),
        ({"network": "192.0.2.0"}, "CIDR"),
        ({"network": "192.0.2.0/24", "gateway": "192.0.3.1"}, "outside"),
        ({"network": "192.0.2.0/24", "gateway": "192.0.2.255"}, "broadcast"),
        ({"network": "192.0.2.0/24", "gateway": "none"}, "not an IP address"),
    ],
)
def test_malformed_deprecated_options(options: dict[str, str], message: str) -> None:
    """Deprecated options that contradict one another are malformed."""
    with pytest.raises(Malformed, match=message):
        added(**options)


def test_deprecated_and_present_options_exclude_each_other() -> None:
    """`--network` together with `--subnet` is malformed."""
    with pytest.raises(Malformed, match="--subnet"):
        add_steps(["cidr=10.0.0.0/24"], old=old_subnets(network="192.0.2.0/24"))
