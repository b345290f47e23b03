"""A downgrade names and refuses everything that the old form can't express, all of it at once."""

import json
from collections.abc import Callable

import pytest

from lanloom.features.ipam.ganeti.formats.conversion import (
    downgrade_config,
    downgrade_runtime,
    upgrade_config,
    upgrade_runtime,
)
from lanloom.refusals import Denied
from tests.features.ipam.ganeti.formats.clusters import (
    Json,
    config,
    instance,
    network,
    nic,
    python_text,
    uuid,
)

SECOND = {"cidr": "198.51.100.0/24", "dhcp": False, "external": [], "pools": [], "uuid": uuid("second")}


def upgraded() -> Json:
    """An upgraded cluster, decoded."""
    one = network("net1", "192.0.2.0/28", used=[2], network6="2001:db8::/64")
    machine = instance("inst1", [nic(1, "192.0.2.2", one["uuid"])])
    return json.loads(upgrade_config(python_text(config([one], [machine]))).text)


def subnets(data: Json) -> list[Json]:
    """The subnets of its network."""
    found: list[Json] = data["networks"][uuid("net1")]["subnets"]
    return found


def the_nic(data: Json) -> Json:
    """Its NIC."""
    return data["instances"][uuid("inst1")]["nics"][0]


def pool(data: Json) -> Json:
    """The pool of its first subnet."""
    return subnets(data)[0]["pools"][0]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda data: subnets(data).append(SECOND),
            "network net1 has 2 IPv4 subnets: 192.0.2.0/28, 198.51.100.0/24",
        ),
        (lambda data: subnets(data).clear(), "network net1 does not begin with an IPv4 subnet"),
        (lambda data: subnets(data).reverse(), "network net1 does not begin with an IPv4 subnet"),
        (lambda data: subnets(data)[0].update(name="front"), "subnet 192.0.2.0/28 has a name, front"),
        (lambda data: subnets(data)[0].update(dhcp=True), "subnet 192.0.2.0/28 has dhcp"),
        (
            lambda data: subnets(data)[0].update(pools=[]),
            "192.0.2.0/28 does not have a single pool of its whole range",
        ),
        (
            lambda data: pool(data).update(range="192.0.2.2-192.0.2.5"),
            "does not have a single pool of its whole range",
        ),
        (lambda data: pool(data).update(name="pool1"), "subnet 192.0.2.0/28 has pools with names"),
        (lambda data: pool(data).update(colour="red"), "pool 0 has unknown fields: colour"),
        (lambda data: subnets(data)[0].update(mtu=9000), "192.0.2.0/28 has unknown fields: mtu"),
        (
            lambda data: subnets(data)[0].update(cidr="192.0.0.0/8"),
            "192.0.0.0/8 has a prefix length outside of /16 to /30",
        ),
        (lambda data: subnets(data)[0]["external"].append("192.0.3.1"), "reserved addresses outside of it"),
        (
            lambda data: subnets(data)[1]["external"].append("2001:db8::9"),
            "which the old form does not allow for IPv6",
        ),
        (
            lambda data: subnets(data)[1]["pools"].append({"range": "2001:db8::/120"}),
            "has a pool, which the old form does not allow for IPv6",
        ),
        (lambda data: the_nic(data)["ips"].append("192.0.2.3"), "NIC 0 of instance inst1 has 2 addresses"),
    ],
)
def test_refusal(change: Callable[[Json], object], reason: str) -> None:
    """A downgrade names what the old form can't say."""
    data = upgraded()
    change(data)
    with pytest.raises(Denied) as caught:
        downgrade_config(python_text(data))
    assert reason in str(caught.value)


def test_every_reason() -> None:
    """All reasons are reported at once."""
    data = upgraded()
    subnets(data)[0].update(name="front", dhcp=True)
    the_nic(data)["ips"].append("192.0.2.3")
    with pytest.raises(Denied) as caught:
        downgrade_config(python_text(data))
    assert len(str(caught.value).splitlines()) == 4


def test_runtime() -> None:
    """A running machine's file is refused for the same reasons."""
    one = network("net1", "192.0.2.0/28", used=[2])
    data = json.loads(upgrade_runtime(json.dumps([[], [nic(1, "192.0.2.2", netinfo=one)], {}, []])).text)
    data[1][0]["netinfo"]["subnets"].append(SECOND)
    data[1][0]["ips"].append("192.0.2.3")
    with pytest.raises(Denied, match="NIC 0 has 2 addresses\nnetwork net1 has 2 IPv4 subnets"):
        downgrade_runtime(json.dumps(data))


def test_ranges_in_any_form() -> None:
    """Ranges may be texts, objects or arrays of start, size and end, an end or a size left out."""
    first, last = "192.0.2.0", "192.0.2.15"
    for form in (
        f"{first}/28",
        [first, 16],
        [first, 16, last],
        {"start": first, "end": last},
        {"start": first, "size": 16},
    ):
        data = upgraded()
        pool(data)["range"] = form
        assert '"network": "192.0.2.0/28"' in downgrade_config(python_text(data)).text


def test_reservations_are_counted() -> None:
    """What the NICs own is reserved in the old form too, whatever the pool says."""
    data = upgraded()
    pool(data)["reservations"] = None
    the_nic(data)["ips"] = ["192.0.2.3"]
    assert '"reservations": "0001000000000000"' in downgrade_config(python_text(data)).text
