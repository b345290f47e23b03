"""One lab for all tests that need one: starting it takes longer than most of them."""

import json
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.lab.driver import Lab, eventually
from tests.lab.looks import NODES, look
from tests.lab.objects import example


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to the report of a failure what the lab's nodes and agents say, before the lab is gone."""
    report = yield
    if report.failed and report.when == "call" and isinstance(item, pytest.Function):
        labs = {value for value in item.funcargs.values() if isinstance(value, Lab)}
        report.sections += [section for lab in labs for section in lab.evidence()]
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lets tests on a lab take their time: their waits are bounded one by one."""
    here = f"{Path(__file__).parent}/"
    for item in items:
        mine = str(item.path).startswith(here)
        if mine and item.get_closest_marker("lab") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def lab(lab_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A running lab with three nodes. Tests leave it as they found it."""
    lab = Lab(tmp_path_factory.mktemp("lab") / "state")
    try:
        lab.run("up", "--nodes", "3")
        yield lab
    finally:
        lab.run("down")


@pytest.fixture
def own_lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab that is not yet started, for one test alone."""
    lab = Lab(tmp_path / "own")
    try:
        yield lab
    finally:
        lab.run("down")


@pytest.fixture
def clean(lab: Lab) -> Iterator[Lab]:
    """The lab, where all networks that the test makes are removed at its end."""
    try:
        yield lab
    finally:
        remove_networks(lab)


@pytest.fixture
def cluster(clean: Lab) -> Lab:
    """The lab with cluster-1 ready on its three nodes; afterwards without any network."""
    clean.kubectl("apply", "-f", example("cluster-1.yaml"))
    clean.kubectl("wait", "--for=condition=ready", "clusternetwork/cluster-1", "--timeout=300s")
    # An agent whose watch of NADs lags makes it with the VLANs of the test before, and takes them away a little later.
    eventually(lambda: all(look(clean, node).is_bare("cluster-1") for node in NODES))
    return clean


def remove_networks(lab: Lab) -> None:
    """Deletes all pods and all networks but mgmt, and waits until the nodes have nothing of them.

    Pods go before the networks that they would keep, and what a test has switched off runs again, or they could not go.
    """
    for node in lab.stopped():
        lab.run("node", "start", node)
    for kinds in (
        "pods",
        "lans.lan.k8slan.io,dummyclusternetworks",
        "network-attachment-definitions,vlanconfigs",
    ):
        if lab.kubectl("get", kinds, "--namespace=default", "-o", "name"):
            lab.kubectl("delete", kinds, "--all", "--namespace=default", "--timeout=300s")
    eventually(
        lambda: not [item for item in _items(lab, "clusternetworknodes") if "mgmt-" not in item], timeout=300
    )
    # What agents added to links of the installer is in no report whose end could be waited for.
    eventually(lambda: all(look(lab, node).has_installers_vlans() for node in NODES), timeout=300)
    networks = [item for item in _items(lab, "clusternetworks") if item != "mgmt"]
    if networks:
        lab.kubectl("delete", "clusternetworks", *networks)


def _items(lab: Lab, kind: str) -> list[str]:
    return [item["metadata"]["name"] for item in json.loads(lab.kubectl("get", kind, "-o", "json"))["items"]]
