"""What the webhooks answer where an administrator restricts node addresses to namespaces, word for word."""

import json

from lanloom.api import names
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.multus import NADS
from lanloom.features.vlan.admission import check_request
from lanloom.features.vlan.reader import ClusterReader
from tests.features.vlan.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.vlan.admission.requests import STATIC, Raw, annotated, network, report, static, world
from tests.features.vlan.cluster import cluster_network, vlan_config
from tests.harness.admission import request

CREATE = "can't create NetworkAttachmentDefinition default/net because "
UPDATE_CN = "can't update ClusterNetwork cluster-1 because "
P = names.PREFIX
ROUTES = json.dumps([{"to": "10.20.0.0/16", "via": "192.168.1.1"}])
ADDRESSES, ROUTING = names.NODE_ADDRESS_NAMESPACES, names.NODE_ROUTING_NAMESPACES


def trusting(**lists: str) -> ClusterReader:
    """A cluster whose network `own` has these lists of namespaces."""
    own = annotated(cluster_network("own"), **lists)
    config = vlan_config("own", "own", nics=["eth9"])
    return world(own, config, report("own", "node1"))


def on_own(**annotations: str) -> Raw:
    """A network of `own` with node addresses and these annotations."""
    return annotated(network(cluster_network="own"), **annotations)


def annotating(why: str, **lists: str) -> Case:
    """An edit of a ClusterNetwork that is refused."""
    plain = cluster_network("cluster-1")
    return Case(request(CLUSTER_NETWORKS, annotated(plain, **lists), plain), world(), UPDATE_CN + why)


NAMESPACE_CASES: Cases = {
    "node addresses are for the namespaces of the list": Case(
        request(NADS, on_own()),
        trusting(node_address_namespaces='["storage", "infra"]'),
        f'{CREATE}metadata.namespace is "default", and ClusterNetwork own allows node addresses only to the namespaces '
        f"of its annotation {ADDRESSES} (infra, storage); ask its administrator to add the namespace",
    ),
    "with an empty list they are for none": Case(
        request(NADS, on_own()),
        trusting(node_address_namespaces="[]"),
        f'{CREATE}metadata.namespace is "default", and ClusterNetwork own allows node addresses only to the namespaces '
        f"of its annotation {ADDRESSES} (none); ask its administrator to add the namespace",
    ),
    "routes and DNS servers are for the namespaces of their list": Case(
        request(NADS, on_own(routes=ROUTES, dns="9.9.9.9")),
        trusting(node_routing_namespaces='["infra"]'),
        f'{CREATE}metadata.namespace is "default", and ClusterNetwork own allows routes and DNS servers of nodes only '
        f"to the namespaces of its annotation {ROUTING} (infra); ask its administrator to add the namespace",
    ),
    "a list that can't be read trusts no namespace": Case(
        request(NADS, on_own()),
        trusting(node_address_namespaces="infra"),
        f"{CREATE}ClusterNetwork own has an invalid list of namespaces for node addresses: {ADDRESSES} "
        "is not valid JSON; it must "
        'be a list such as ["infra", "storage"]; ask its administrator to correct it',
    ),
    "a list of namespaces is JSON": annotating(
        f'{ADDRESSES} is not valid JSON; it must be a list such as ["infra", "storage"]',
        node_address_namespaces="infra,storage",
    ),
    "a list of namespaces is a list": annotating(
        f'{ROUTING} must be a JSON list of namespaces, such as ["infra", "storage"]',
        node_routing_namespaces='"infra"',
    ),
    "a list of namespaces holds names": annotating(
        f'{ADDRESSES} has the item "Infra", which is not the name of a namespace',
        node_address_namespaces='["Infra"]',
    ),
    "a list of namespaces names each once": annotating(
        f'{ADDRESSES} names namespace "infra" twice', node_address_namespaces='["infra", "infra"]'
    ),
    "a list of namespaces has a reasonable size": annotating(
        f"{ADDRESSES} has 65537 characters; at most 65536 are allowed",
        node_address_namespaces=" " * 65537,
    ),
}


@each(NAMESPACE_CASES)
def test_namespaces_that_are_refused(case: Case) -> None:
    """A network of a namespace that is not trusted changes no node, and a list that can't be read is refused."""
    assert answer(case) == case.message


def test_namespaces_that_are_trusted() -> None:
    """A namespace of the list may do what it is listed for; the two lists are independent of each other."""
    for lists, asked in (
        ({"node_address_namespaces": '["default"]'}, on_own(routes=ROUTES, dns="9.9.9.9")),
        ({"node_routing_namespaces": "[]"}, on_own(gateway="192.168.1.1/24")),
        ({"node_routing_namespaces": '["default"]'}, on_own(routes=ROUTES)),
        ({"node_address_namespaces": "[]"}, network(cluster_network="own", mode="")),
    ):
        assert check_request(request(NADS, asked), trusting(**lists)).message == ""


def test_what_a_network_has_it_keeps() -> None:
    """A network from before the restriction can be edited elsewhere, and give back what it has."""
    seen = trusting(node_address_namespaces="[]", node_routing_namespaces="[]")
    old = on_own(routes=ROUTES, dns="9.9.9.9,1.1.1.1")
    for new in (on_own(routes=ROUTES, dns="9.9.9.9"), on_own(), network(cluster_network="own", mode="")):
        assert check_request(request(NADS, new, old), seen).message == ""
    more = annotated(old, dns="9.9.9.9,1.1.1.1,8.8.8.8")
    assert "allows DNS servers of nodes only" in check_request(request(NADS, more, old), seen).message


def test_networks_that_keep_their_addresses_are_told() -> None:
    """A restriction of a cluster network warns which networks of other namespaces keep what they have."""
    plain = cluster_network("cluster-1")
    lists = {"node_address_namespaces": '["infra"]', "node_routing_namespaces": '["infra"]'}
    verdict = check_request(
        request(CLUSTER_NETWORKS, annotated(plain, **lists), plain), world(static(STATIC), network(mode=""))
    )
    assert verdict.allowed
    assert verdict.warnings == (
        f"{ADDRESSES} does not list the namespaces of default/net; their existing objects stay unchanged "
        "until they are changed or deleted",
    )
