"""Options that the webhooks refuse, word for word. `docs/validation.md` is written from the cases."""

import json
from typing import Any, NamedTuple

import pytest

from lanloom.api.lan import LAN_NODES, LANS, resource_name
from lanloom.api.lannads import RESOURCE_NAME
from lanloom.api.multus import NADS
from lanloom.kube.patches import merge
from tests.features.lan.manager.scene import PLACE
from tests.features.lan.reviews import Reviews, raw, review_lan, reviewed
from tests.features.lan.samples import entry
from tests.harness.refusals import check_group, check_page

Raw = dict[str, Any]


class Case(NamedTuple):
    """What is asked for, and the whole message: a spec of a LAN, an update of one, or the configuration of a NAD.

    Node node1 carries the LAN that is there with an MTU of 1450, and node2 with one of 1430.
    """

    message: str
    spec: Raw = {}
    update: Raw = {}
    config: Raw = {}
    there: Raw = {}


def answer(case: Case) -> str:
    """The message that the webhook really gives; empty if it allows the request."""
    told: list[str] = []

    async def story(on: Reviews) -> None:
        if case.spec:
            await on.follow()
            verdict = await on.ask(LANS, review_lan(**case.spec))
        else:
            lan = await on.add_lan(**case.there)
            for name, mtu in (("node1", 1450), ("node2", 1430)):
                await on.client.create(LAN_NODES, {"metadata": {"name": name}})
                status = {"lans": [raw(entry(lan, mtu=mtu))]}
                await on.client.patch(LAN_NODES, name, {"status": status}, subresource="status")
            await on.follow()
            old = raw(lan)
            if case.update:
                verdict = await on.ask(LANS, merge(old, {"spec": case.update}), old)
            else:
                verdict = await on.ask(NADS, nad(case.config))
        assert verdict.allowed == (not verdict.message)
        told.append(verdict.message)

    reviewed(story)()
    return told[0]


def nad(config: Raw) -> Raw:
    """A NAD of a user's own, for the spoke a."""
    meta = {
        "name": "mine",
        "namespace": PLACE,
        "annotations": {RESOURCE_NAME: resource_name("a", "macvtap")},
    }
    return {"metadata": meta, "spec": {"config": json.dumps(config)}}


def _with(section: Raw, **more: Any) -> Raw:
    """The configuration of a pod's interface with this `ipam`."""
    return {"type": "k8slanveth", "veth": "a", "ipam": section, **more}


OPTION_CASES = {
    "a limit of MAC addresses": Case(
        "LAN nets/blue: spec.maxLearnedMacs is 65536; it must be from 1 to 65535; leave it out for the default",
        spec={"maxLearnedMacs": 65536},
    ),
    "a rate of storm control": Case(
        "LAN nets/blue: spec.stormControl.packetsPerSecond is -1; it must be from 1 to 10000000, or 0 for any number",
        spec={"stormControl": {"packetsPerSecond": -1}},
    ),
    "an MTU": Case(
        "LAN nets/blue: spec.mtu is 67; it must be from 68 to 65535 bytes, or 0 for what fits",
        spec={"mtu": 67},
    ),
    "options are of spokes that are there": Case(
        'LAN nets/blue: spec.spokeOptions names "c", which spec.spokes does not have; add the spoke there, or leave '
        "its options out",
        spec={"spokeOptions": {"c": {"isolated": True}}},
    ),
    "values of a spoke's options": Case(
        'LAN nets/blue: spec.spokeOptions["a"].mtu is 9; it must be from 68 to 65535 bytes, or 0 for what fits',
        spec={"spokeOptions": {"a": {"mtu": 9}}},
    ),
    "a spoke within its LAN's MTU": Case(
        'LAN nets/blue: spec.spokeOptions["a"].mtu is 1500, and spec.mtu is 1400; ask for at most that',
        spec={"mtu": 1400, "spokeOptions": {"a": {"mtu": 1500}}},
    ),
    "a limit with port security": Case(
        'LAN nets/blue: spec.spokeOptions["a"].maxLearnedMacs is 3, but with port security the spoke has exactly one '
        "MAC address; leave one of them out",
        spec={"portSecurity": True, "spokeOptions": {"a": {"maxLearnedMacs": 3}}},
    ),
}

MTU_CASES = {
    "an MTU that fits on every node": Case(
        "LAN nets/blue: spec.mtu is 1450, and the LAN has MTU 1430, as node node2 allows no more; ask for at most "
        "1430, or raise the MTU of the underlay of node node2",
        update={"mtu": 1450},
    ),
    "an MTU of a spoke that fits on every node": Case(
        'LAN nets/blue: spec.spokeOptions["a"].mtu is 9000, and the LAN has MTU 1430, as node node2 allows no more; '
        "ask for at most 1430, or raise the MTU of the underlay of node node2",
        update={"spokeOptions": {"a": {"mtu": 9000}}},
    ),
    "a NAD for pods that fits": Case(
        "NetworkAttachmentDefinition nets/mine: spec.config.mtu is 1500, but of LAN nets/blue: the LAN has MTU 1430, "
        "as node node2 allows no more; ask for at most 1430, or raise the MTU of the underlay of node node2",
        config={"type": "k8slanveth", "veth": "a", "mtu": 1500},
    ),
    "a NAD for machines that fits": Case(
        "NetworkAttachmentDefinition nets/mine: spec.config.mtu is 1500, but of LAN nets/blue: the LAN has MTU 1430, "
        "as node node2 allows no more; ask for at most 1430, or raise the MTU of the underlay of node node2",
        config={"plugins": [{"type": "macvtap", "mtu": 1500}]},
    ),
    "a NAD within its LAN's MTU": Case(
        "NetworkAttachmentDefinition nets/mine: spec.config.mtu is 1420, but of LAN nets/blue: the LAN has MTU 1400 by "
        "its spec.mtu; ask for at most 1400, or raise spec.mtu",
        config={"type": "k8slanveth", "veth": "b", "mtu": 1420},
        there={"mtu": 1400},
    ),
}

NAD_CASES = {
    "the binding of a machine": Case(
        "NetworkAttachmentDefinition nets/mine: spec.config: binding: must be bridge, in a NAD of the type k8slanveth, "
        "or missing",
        config={"type": "k8slanveth", "veth": "a", "binding": "masquerade"},
    ),
    "the name of a spoke in a NAD": Case(
        "NetworkAttachmentDefinition nets/mine: spec.config: veth: must be the name of a spoke: at most 13 lower-case "
        "letters, digits and dashes",
        config={"plugins": [{"type": "k8slanveth", "veth": "Spoke_1"}]},
    ),
    "the MTU in a NAD": Case(
        "NetworkAttachmentDefinition nets/mine: spec.config: mtu: must be a number from 0 to 65535",
        config={"type": "k8slanveth", "veth": "nobody", "mtu": "9000"},
    ),
}

IPAM_CASES = {
    "a NAD names no path": Case(
        "NetworkAttachmentDefinition nets/mine: spec.config.ipam.dataDir: must not be in a NAD; the agent keeps the "
        "addresses of each network in a directory of its own",
        config=_with({"type": "host-local", "subnet": "192.0.2.0/24", "dataDir": "/host-cni-bin"}),
    ),
    "also not for a program that is not listed": Case(
        'NetworkAttachmentDefinition nets/mine: spec.config.ipam.keys[0]: "/root/key" could be the path of a file, '
        "which a NAD must not name",
        config=_with({"type": "company-ipam", "keys": ["/root/key"]}),
    ),
    "fields of an IPAM program are listed": Case(
        "NetworkAttachmentDefinition nets/mine: spec.config.ipam.address: is not a field that a NAD can set; it can "
        "set type, addresses, routes, dns",
        config={"plugins": [_with({"type": "static", "address": "192.0.2.1/24"})]},
    ),
    "values of an IPAM program have their types": Case(
        'NetworkAttachmentDefinition nets/mine: spec.config.ipam.routes[0].gw: "gate" is not an IP address',
        config=_with({"type": "static", "routes": [{"dst": "0.0.0.0/0", "gw": "gate"}]}),
    ),
    "the name of a network is none of a path": Case(
        'NetworkAttachmentDefinition nets/mine: spec.config.name: "../x" is not valid here; write a value such as '
        "blue-web",
        config=_with({"type": "host-local", "subnet": "192.0.2.0/24"}, name="../x"),
    ),
}


@pytest.mark.parametrize("case", OPTION_CASES.values(), ids=list(OPTION_CASES))
def test_options_that_are_refused(case: Case) -> None:
    """An option that can't be is refused with its field and the remedy."""
    assert answer(case) == case.message


@pytest.mark.parametrize("case", MTU_CASES.values(), ids=list(MTU_CASES))
def test_mtus_that_do_not_fit(case: Case) -> None:
    """A larger MTU than fits on every node that carries the LAN is refused, and the node is named."""
    assert answer(case) == case.message


@pytest.mark.parametrize("case", NAD_CASES.values(), ids=list(NAD_CASES))
def test_nads_at_which_no_pod_starts(case: Case) -> None:
    """What an agent refuses of every pod is refused when the NAD is written, in the same words."""
    assert answer(case) == case.message


@pytest.mark.parametrize("case", IPAM_CASES.values(), ids=list(IPAM_CASES))
def test_programs_that_are_refused(case: Case) -> None:
    """What an IPAM program must not get is refused with its field and the remedy."""
    assert answer(case) == case.message


FITTING = (
    Case("", update={"mtu": 1430}),
    Case("", update={"spokeOptions": {"a": {"mtu": 1430, "isolated": True}}}),
    Case("", update={"portSecurity": True}, there={"mtu": 1500}),
    Case("", config={"type": "k8slanveth", "veth": "a", "mtu": 1430}),
    Case("", config={"type": "k8slanveth", "veth": "nobody", "mtu": 9000}),
    Case("", config={"type": "k8slanveth", "veth": ["a"], "mtu": 9000}),
    Case("", config={"type": "bridge", "mtu": 9000}),
    Case("", config={"type": "macvtap", "mtu": True}),
    Case("", config={"plugins": ["macvtap"], "mtu": 9000}),
    Case("", config=_with({"type": "static", "addresses": [{"address": "192.0.2.1/24"}]})),
    Case("", config={"type": "bridge", "ipam": {"type": "host-local", "dataDir": "/data"}}),
)


@pytest.mark.parametrize("case", FITTING, ids=str)
def test_what_is_allowed(case: Case) -> None:
    """What fits, what did not change, and what is no LAN's is let in."""
    assert answer(case) == ""


GROUPS = (
    ("Options of LANs", test_options_that_are_refused, OPTION_CASES),
    ("MTUs of LANs", test_mtus_that_do_not_fit, MTU_CASES),
    ("NADs at spokes", test_nads_at_which_no_pod_starts, NAD_CASES),
    ("IPAM programs of NADs at LANs", test_programs_that_are_refused, IPAM_CASES),
)


def test_the_tables_are_what_the_webhooks_say() -> None:
    """The page has every rule with its message, as the tests hold it; LANLOOM_GOLDEN=rewrite writes it again."""
    check_page(GROUPS, "tests/features/lan/test_options_refused.py")


@pytest.mark.parametrize(("title", "test", "cases"), GROUPS, ids=[group[0] for group in GROUPS])
def test_each_message_has_a_test(title: str, test: Any, cases: dict[str, Case]) -> None:
    """The test that the page names runs just the rules that the page lists, and the messages are really given."""
    check_group(test, cases, answer)
