"""Who may write statuses."""

import pytest

from lanloom.api.ipam import NETWORKS, NICS
from tests.features.ipam.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.ipam.admission.requests import (
    ADMIN,
    AGENT,
    MANAGER,
    Present,
    holding,
    network,
    nic,
    verdict_of,
    with_status,
)
from tests.harness.admission import request

RULED = with_status(network(), allocator={"holder": "manager-2", "epoch": 4})
HERE: tuple[Present, ...] = ((NETWORKS, RULED),)


def written(message: str, epoch: int) -> Case:
    """A status that an allocator of that epoch writes."""
    new = with_status(holding("web-0", "192.0.2.10"), epoch=epoch)
    return Case(request(NICS, new, nic("web-0", "pool"), user=MANAGER, status=True), HERE, message)


STATUS_CASES: Cases = {
    "a NIC's status is the manager's": Case(
        request(NICS, holding("web-0", "192.0.2.10"), nic("web-0"), user=ADMIN, status=True),
        HERE,
        "Nic default/web-0: status is written by Lanloom's manager only; change the spec instead",
    ),
    "a network's status is the manager's": Case(
        request(NETWORKS, RULED, network(), user=ADMIN, status=True),
        HERE,
        "Network net1: status is written by Lanloom's manager only; change the spec instead",
    ),
    "agents write no statuses": Case(
        request(NICS, holding("web-0", "192.0.2.10"), nic("web-0"), user=AGENT, status=True),
        HERE,
        "Nic default/web-0: status is written by Lanloom's manager only; change the spec instead",
    ),
    "a deposed allocator writes no addresses": written(
        (
            "Nic default/web-0: status.epoch is 3, but manager-2 now allocates the addresses of "
            "Network net1, with epoch 4"
        ),
        3,
    ),
    "an epoch never goes back": Case(
        request(NETWORKS, with_status(network(), allocator={"epoch": 3}), RULED, user=MANAGER, status=True),
        HERE,
        ("Network net1: status.allocator.epoch is 4 and can't decrease; read the object again"),
    ),
}


@each(STATUS_CASES)
def test_statuses_that_are_refused(case: Case) -> None:
    """What says who owns which address is written by the present allocator alone."""
    assert answer(case) == case.message


@pytest.mark.parametrize("epoch", [4, 5])
def test_the_present_allocator_writes(epoch: int) -> None:
    """A status of the present epoch, or of one that is just beginning, is accepted."""
    assert answer(written("", epoch)) == ""


def test_the_embedded_server_writes() -> None:
    """The manager in the embedded server writes as the server itself."""
    new = with_status(RULED, allocator={"epoch": 5})
    assert verdict_of(request(NETWORKS, new, RULED, user="system:lanloom:apiserver", status=True)).allowed


def test_a_network_that_is_gone_holds_nobody_up() -> None:
    """A NIC's status can say that its network is gone, whatever epoch that had."""
    assert verdict_of(written("", 1).asked).allowed


def test_the_epoch_of_a_network_that_is_new_is_read() -> None:
    """A manager whose watch has not brought a network yet accepts no write of its deposed allocator."""
    assert not verdict_of(written("", 3).asked, *HERE, seen=[]).allowed


def test_the_epoch_costs_no_request() -> None:
    """An address is given without a request for the network: versions keep addresses apart, not this check."""
    assert verdict_of(written("", 3).asked, *HERE, seen=[(NETWORKS, network())]).allowed
