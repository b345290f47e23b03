"""No request is refused because the manager's view lags behind, and nothing is allowed because of it that matters."""

import asyncio

import pytest

from lanloom.api.admission import AdmissionRequest, Verdict
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.features.ipam.admission import IpamAdmission
from lanloom.features.ipam.reader import NetworkContext
from lanloom.kube.errors import KubeError, TransportError
from lanloom_embedded.engine.storage import MemoryStorage
from tests.features.ipam.admission.requests import (
    AGENT,
    MANAGER,
    Present,
    Raw,
    agent_of,
    granting,
    holding,
    network,
    nic,
    subnet,
    verdict_of,
)
from tests.harness.admission import request
from tests.harness.cluster import Cluster, installed
from tests.harness.virtual import run

NET: Present = (NETWORKS, network())
WANTS = request(NICS, nic("web-0", "192.0.2.10"))
OWNED: Present = (NICS, holding("db-0", "192.0.2.10"))


def test_an_address_that_was_released_a_moment_ago_is_free() -> None:
    """An owner that is gone, or has another address by now, hinders no request, although no watch has reported it."""
    assert verdict_of(WANTS, NET, seen=[NET, OWNED]).allowed
    moved = (NICS, holding("db-0", "192.0.2.11"))
    assert verdict_of(WANTS, NET, moved, seen=[NET, OWNED]).allowed
    elsewhere = (NICS, holding("db-0", "192.0.2.10", network="net2"))
    assert verdict_of(WANTS, NET, elsewhere, seen=[NET, OWNED]).allowed


def test_an_address_that_is_owned_is_seen_twice() -> None:
    """What a second look finds too is refused."""
    assert not verdict_of(WANTS, NET, OWNED).allowed


def test_a_grant_that_was_fulfilled_elsewhere_hinders_nobody() -> None:
    """A grant that is gone from the network does not count, although no watch has reported it."""
    granted = (NETWORKS, granting("db-0", "192.0.2.10"))
    assert verdict_of(WANTS, NET, seen=[granted]).allowed
    assert not verdict_of(WANTS, (NICS, nic("db-0", "192.0.2.10")), granted).allowed


def test_a_grant_that_is_settled_hinders_nobody() -> None:
    """A grant that the network still shows counts no more when its NIC is gone, moved, or was written since."""
    granted = (NETWORKS, granting("db-0", "192.0.2.10", version=1))
    assert verdict_of(WANTS, granted).allowed
    assert verdict_of(WANTS, (NICS, holding("db-0", "192.0.2.11")), granted).allowed
    pending = (NETWORKS, granting("db-0", "192.0.2.10"))
    assert verdict_of(WANTS, (NICS, nic("db-0", network="net2")), pending).allowed
    assert not verdict_of(WANTS, (NICS, holding("db-0", "192.0.2.11")), pending).allowed


def test_a_grant_to_another_nic_by_now_hinders() -> None:
    """An address that went to another NIC than the watch has reported is refused, and the message names that one."""
    granted, seen = (NETWORKS, granting("db-1", "192.0.2.10")), (NETWORKS, granting("db-0", "192.0.2.10"))
    verdict = verdict_of(WANTS, (NICS, nic("db-1", "192.0.2.10")), granted, seen=[seen])
    assert "(NIC default/db-1)" in verdict.message


def test_a_subnet_of_a_moment_ago_is_seen() -> None:
    """A subnet that was added just before counts, and so does what is no longer reserved."""
    before = (NETWORKS, network("net1", {"cidr": "10.0.0.0/24"}))
    assert verdict_of(WANTS, NET, seen=[before]).allowed
    reserved = (NETWORKS, network("net1", subnet(external=["192.0.2.10"])))
    assert verdict_of(WANTS, NET, seen=[reserved]).allowed


def test_a_network_that_is_new_is_seen() -> None:
    """A NIC that comes right after its network, as of one file, is judged by it and not refused for want of one."""
    verdict = verdict_of(WANTS, NET, seen=[])
    assert (verdict.allowed, verdict.warnings) == (True, ())
    assert (
        "net1 does not contain 10.9.9.9"
        in verdict_of(request(NICS, nic("web-0", "10.9.9.9")), NET, seen=[]).message
    )


def test_networks_are_judged_by_what_is_there_now() -> None:
    """A NIC that owns an address since a moment keeps its subnet, although no watch has reported it."""
    cut = request(NETWORKS, network("net1", {"cidr": "10.0.0.0/24"}), network())
    assert not verdict_of(cut, NET, OWNED, seen=[NET]).allowed
    assert verdict_of(cut, NET, seen=[NET, OWNED]).allowed
    gone = request(NETWORKS, None, network())
    assert verdict_of(gone, NET, OWNED, seen=[NET]).warnings
    assert not verdict_of(gone, NET, seen=[NET, OWNED]).warnings


def test_the_name_of_an_object_is_read_live() -> None:
    """A network that was made a moment ago keeps its name, although no watch has reported it."""
    named = request(NETWORKS, network("net2", name="net1"))
    assert not verdict_of(named, NET, seen=[]).allowed
    assert verdict_of(named, (NETWORKS, network(name="prod")), seen=[NET]).allowed


def test_a_name_that_was_given_up_a_moment_ago_is_free() -> None:
    """A network that is gone, or is called something else by now, hinders no request, although no watch has reported
    it.
    """
    named, stored = request(NETWORKS, network("net2", name="prod")), (NETWORKS, network(name="prod"))
    assert not verdict_of(named, stored).allowed
    assert verdict_of(named, seen=[stored]).allowed
    assert verdict_of(named, NET, seen=[stored]).allowed


@pytest.mark.parametrize("more", [{"name": "prod"}, {"uuid": "6f1f2a1e-0000-4000-8000-000000000002"}])
def test_a_name_that_was_allowed_a_moment_ago_is_taken(more: Raw) -> None:
    """Of two networks with one name or UUID the second is refused, although no watch has reported the first."""

    async def ask(storage: MemoryStorage) -> list[bool]:
        async with Cluster(storage) as cluster:
            admission = IpamAdmission(cluster.client, empty, agent_of)
            asked = (
                request(NETWORKS, network("net1", **more), dry_run=True),
                request(NETWORKS, network("net2", **more)),
                request(NETWORKS, network("net2", **more)),
                request(NETWORKS, network("net3", **more)),
            )
            return [(await admission.validate(one)).allowed for one in asked]

    assert run(ask(installed(NETWORKS))) == [True, True, True, False]


@pytest.mark.parametrize(
    "before", [None, network("net2", name="other"), network("net2", subnet(), name="other")]
)
def test_of_two_names_at_once_one_is_refused(before: Raw | None) -> None:
    """Of two networks that are given one name at the same time one is refused, new or renamed."""
    new = network("net2", {"cidr": "10.0.0.0/24"}, name="prod")
    asked = (request(NETWORKS, network("net1", name="prod")), request(NETWORKS, new, before))

    async def ask(storage: MemoryStorage) -> list[Verdict]:
        async with Cluster(storage) as cluster:
            admission = IpamAdmission(cluster.client, empty, agent_of)
            return await asyncio.gather(*map(admission.validate, asked))

    verdicts = run(ask(installed(NETWORKS, NICS)))
    (refused,) = (verdict for verdict in verdicts if not verdict.allowed)
    assert "prod is the name of Network" in refused.message


def test_a_grant_of_a_nic_that_is_gone_is_void() -> None:
    """What was granted to a NIC that went before its status said so keeps no subnet."""
    old = granting("web-0", "192.0.2.9")
    cut = request(NETWORKS, network("net1", {"cidr": "10.0.0.0/24"}), old)
    assert not verdict_of(cut, NET, (NICS, nic("web-0", "pool"))).allowed
    assert verdict_of(cut, NET).allowed
    assert verdict_of(request(NETWORKS, None, old), NET).allowed


class Silent:
    """An API server that can't be reached."""

    def __getattr__(self, name: str) -> object:
        async def fail(*_: object, **__: object) -> object:
            raise TransportError("the connection was refused")

        return fail


def empty(network: str, namespace: str, addresses: object, mac: str) -> NetworkContext:
    """A manager that has seen nothing of addresses."""
    return NetworkContext()


LOST: dict[str, AdmissionRequest] = {
    "a subnet that goes": request(NETWORKS, network("net1", {"cidr": "10.0.0.0/24"}), network()),
    "a name": request(NETWORKS, network(name="prod")),
    "a deletion": request(NETWORKS, None, network()),
    "a status": request(NICS, holding("web-0", "192.0.2.10"), nic("web-0"), user=MANAGER, status=True),
    "an unknown writer": request(NICS, holding("web-0", "192.0.2.10"), nic("web-0"), status=True),
    "an agent": request(
        NICS,
        nic(
            owner={"kind": "Pod", "name": "web", "uid": "1"},
            meta={"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "1"}]},
        ),
        user=AGENT,
    ),
}


@pytest.mark.parametrize("asked", LOST.values(), ids=LOST)
def test_what_can_not_be_checked_is_refused(asked: AdmissionRequest) -> None:
    """Where the API server can't be asked, nothing passes that depends on it, and the answer says why."""
    admission = IpamAdmission(Silent(), empty, agent_of)  # type: ignore[arg-type]
    verdict = run(admission.validate(asked))
    assert not verdict.allowed
    assert "the connection was refused" in verdict.message or "manager only" in verdict.message


@pytest.mark.parametrize(
    "asked",
    [
        request(NICS, nic(mac="x")),
        request(NETWORKS, network("net1", subnet(cidr="x"))),
        request(NETWORKS, network("net1", subnet(pools=[])), network("net1", subnet(pools=[]), name="")),
        request(NICS, nic(), nic()),
        request(NETWORKS, network()),
    ],
    ids=["NIC", "network", "nothing changed", "the same", "a network that has its object's name"],
)
def test_what_needs_no_look_costs_none(asked: AdmissionRequest) -> None:
    """What is wrong in itself, or did not change, is answered without a request to the API server."""
    admission = IpamAdmission(Silent(), empty, agent_of)  # type: ignore[arg-type]
    try:
        verdict = run(admission.validate(asked))
    except KubeError as error:
        raise AssertionError("it asked") from error
    assert "the connection was refused" not in verdict.message
