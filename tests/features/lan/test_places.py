"""Where spokes are attached, as far as pods tell."""

import pytest

from lanloom.api.core import Pod
from lanloom.api.lan import LAN
from lanloom.api.multus import NETWORK_STATUS
from lanloom.api.reading import convert
from lanloom.features.lan.attachments import places_of_pods


def lan(name: str, *spokes: str) -> LAN:
    """A LAN of the namespace `a`."""
    meta = {"name": name, "namespace": "a", "uid": name}
    return convert({"metadata": meta, "spec": {"spokes": list(spokes)}}, LAN)


def pod(name: str, status: str, *, place: str = "a", node: str = "n1", phase: str = "Running") -> Pod:
    """A pod with Multus' annotation."""
    meta = {"name": name, "namespace": place, "annotations": {NETWORK_STATUS: status}}
    return convert({"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": phase}}, Pod)


def on(nad: str) -> str:
    """Multus' annotation of a pod that is attached to a NAD."""
    return f'[{{"name": "{nad}", "interface": "net1"}}]'


LANS = (lan("blue", "web", "db"), lan("red", "mail"))


@pytest.mark.parametrize(
    ("pods", "found"),
    [
        ([pod("p", on("a/k8slan-veth-web"))], {("blue", "web"): ("n1", "a/p", "veth")}),
        ([pod("p", on("a/k8slan-mac-mail"))], {("red", "mail"): ("n1", "a/p", "macvtap")}),
        ([pod("p", on("a/k8slan-veth-web"), phase="Succeeded")], {}),
        ([pod("p", on("b/k8slan-veth-web"))], {}),
        ([pod("p", on("a/k8slan-veth-none"))], {}),
        ([pod("p", on("a/k8slan-veth-web"), place="b")], {("blue", "web"): ("n1", "b/p", "veth")}),
        ([pod("p", "[{"), pod("q", ""), pod("r", "/" * 9)], {}),
        (
            [pod("p", on("a/k8slan-mac-web")), pod("q", on("a/k8slan-mac-web"), node="n2")],
            {("blue", "web"): ("n1, n2", "a/p, a/q", "macvtap")},
        ),
    ],
    ids=["pod", "machine", "ended", "other", "no spoke", "admitted", "unreadable", "migrating"],
)
def test_where_spokes_are(pods: list[Pod], found: dict[tuple[str, str], tuple[str, str, str]]) -> None:
    """A pod that runs and is attached to a spoke's NAD tells node, pod and mode; two while a machine migrates."""
    assert {key: tuple(at) for key, at in places_of_pods(LANS, pods).items()} == found
