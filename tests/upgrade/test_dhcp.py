"""Subnets that had `dhcp` in 0.1.0, where it was for scripts, under agents that answer DHCP requests."""

import copy
from ipaddress import IPv4Interface
from typing import Any

import pytest

from lanloom.api.ipam import NETWORKS, NICS
from lanloom.features.ipam.agent.cnitypes import IpamConfig
from lanloom.features.ipam.dhcp.answers import DEFAULT_SECONDS, Given, decide
from lanloom.features.ipam.dhcp.given import given_to
from lanloom.features.ipam.dhcp.packet import read
from lanloom.features.ipam.state import network_of
from lanloom.processes.chart import source
from lanloom.processes.definitions import install
from tests.features.ipam.dhcp.client import ACK, DECLINE, INFORM, MAC, NAK, OFFER, REQUEST, Fields, frame
from tests.upgrade.test_recorded import OBJECTS, server

Raw = dict[str, Any]
OWN, OTHERS, OTHER_SERVER = "192.0.2.4", "192.0.2.77", "192.0.2.200"


async def given(*, dhcp: bool) -> Given | None:
    """What the recorded NIC gets after the upgrade; its subnet has `dhcp` as it was stored with 0.1.0."""
    async with server() as made:
        network = copy.deepcopy(next(item for item in OBJECTS if item["metadata"]["name"] == "shop"))
        (subnet,) = [item for item in network["spec"]["subnets"] if ":" not in item["cidr"]]
        subnet["dhcp"] = dhcp
        name = network["metadata"]["name"]
        await made.client.patch(NETWORKS, name, {"spec": network["spec"]})
        await install(made.client)
        read_ = network_of(await made.client.get(NETWORKS, name))
        nic = await made.client.get(NICS, "db1-0", "default")
    return given_to(nic, read_, IpamConfig(type="lanloom-ipam", network=name), host="db1", mtu=1500)


async def test_only_subnets_that_had_it_are_served() -> None:
    """A guest gets what its NIC has since 0.1.0, for a day; without `dhcp` in its subnet it gets nothing."""
    found = await given(dhcp=True)
    assert found is not None
    assert (found.address, found.seconds) == (IPv4Interface(f"{OWN}/24"), DEFAULT_SECONDS)
    assert await given(dhcp=False) is None


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"kind": REQUEST, "wants": OWN, "server": OTHER_SERVER}, None),
        ({"kind": REQUEST, "wants": OTHERS, "server": OTHER_SERVER}, None),
        ({"kind": REQUEST, "has": OWN, "to": OTHER_SERVER}, None),
        ({"kind": REQUEST, "has": OTHERS, "to": OTHER_SERVER}, None),
        ({"kind": DECLINE, "wants": OTHERS, "server": OTHER_SERVER}, None),
        ({"kind": INFORM, "has": OWN, "to": OTHER_SERVER}, None),
        ({"kind": OFFER}, None),
        ({"kind": REQUEST, "has": OWN, "broadcast": True}, ACK),
        ({"kind": REQUEST, "wants": OWN}, ACK),
        ({"kind": REQUEST, "wants": OTHERS}, NAK),
    ],
)
async def test_a_server_of_scripts_keeps_its_clients(fields: Fields, answer: int | None) -> None:
    """Who selects or renews at the server that scripts run is left to it, and the NIC's address is never refused.

    A guest that asks no certain server for another address than that of its NIC is refused: docs/operations.md says so.
    """
    found = await given(dhcp=True)
    request = read(frame(**fields))
    assert request is not None
    made = decide(request, MAC, found).answer
    assert (made.kind if made is not None else None) == answer


def test_the_feature_can_be_left_out() -> None:
    """Without the feature `dhcp` among those of the chart's `lan`, no agent answers."""
    for features, answers in ((["lan", "liveupdate", "dhcp"], True), (["lan", "liveupdate"], False)):
        texts = dict(source.rendered({"lan": {"features": features}}))
        assert ("--guest-dhcp" in texts["lan"]) is answers
        assert not any("--guest-dhcp" in text for name, text in texts.items() if name != "lan")
