"""NADs that name Lanloom's IPAM program: what an agent refuses when a pod starts is refused when the NAD is written."""

import json

from lanloom.api.multus import NADS
from tests.features.ipam.admission.cases import Case, Cases, answer, each
from tests.features.ipam.admission.requests import Raw, verdict_of
from tests.harness.admission import request


def nad(*, plugins: bool = False, **section: object) -> Raw:
    """A NAD with these fields of the section `ipam`."""
    config: Raw = {"type": "bridge", "bridge": "br0", "ipam": {"type": "lanloom-ipam", **section}}
    text = json.dumps({"plugins": [{"type": "tuning"}, config]} if plugins else config)
    return {"metadata": {"name": "blue", "namespace": "default"}, "spec": {"config": text}}


def refused(nad: Raw, message: str) -> Case:
    """A new NAD."""
    return Case(request(NADS, nad), (), f"NetworkAttachmentDefinition default/blue: spec.config.{message}")


NAD_CASES: Cases = {
    "a NAD names its network": refused(nad(), "ipam: Object missing required field `network`"),
    "fields of the program have their types": refused(
        nad(network=["net1"]), "ipam: Expected `str`, got `array` - at `ipam.network`"
    ),
    "the program has no other fields": refused(
        nad(network="net1", pool="office"), "ipam: Object contains unknown field `pool`"
    ),
    "addresses of a NAD are addresses or pools": refused(
        nad(network="net1", ips=["zz!"]),
        'ipam.ips: "zz!" is neither an IP address nor pool, pool4, pool6 or the name of a pool; write one such as '
        "192.0.2.10 or pool",
    ),
    "pools of a NAD are pools": refused(
        nad(network="net1", pools=["192.0.2.10"]),
        "ipam.pools: 192.0.2.10 is an address; those belong into ipam.ips",
    ),
    "a route and its gateway have one IP version, also in a list of plugins": refused(
        nad(plugins=True, network="net1", routes=[{"dst": "10.0.0.0/8", "gw": "fd00::1"}]),
        "plugins[1].ipam.routes[0]: fd00::1 can't be the gateway to 10.0.0.0/8, of another IP version",
    ),
}


@each(NAD_CASES)
def test_nads_at_which_no_pod_starts(case: Case) -> None:
    """What an agent refuses when a pod starts is refused when the NAD is written, in the same words."""
    assert answer(case) == case.message


def test_a_nad_from_before_can_be_changed() -> None:
    """A fault that was there before is a warning, so that labels and other fields of the NAD can change."""
    old, new = nad(network="net1", ips=["zz!"]), nad(network="net2", ips=["zz!"])
    verdict = verdict_of(request(NADS, new, old))
    assert verdict.allowed
    [warning] = verdict.warnings
    assert "zz!" in warning and warning.endswith("; pods that start at it are refused")


def test_a_nad_that_cannot_be_read_is_left_to_others() -> None:
    """Of a configuration that is none, or of another program, nothing is said."""
    for text in ("{", "[]", '{"ipam": {"type": "static", "network": 5}}', '{"ipam": "lanloom-ipam"}'):
        body = {"metadata": {"name": "blue", "namespace": "default"}, "spec": {"config": text}}
        assert verdict_of(request(NADS, body)).allowed
