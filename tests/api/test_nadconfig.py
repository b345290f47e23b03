"""What a NAD's CNI configuration says of VLANs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api import names
from lanloom.api.l3 import AnnotationError
from lanloom.api.meta import ObjectMeta
from lanloom.api.multus import NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec
from lanloom.api.nadconfig import VmNetwork, cluster_network_of, parse_config

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["bridge", "kube-ovn", "c-br"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["minID", "maxID", "id"]) | st.text(), inner, max_size=3)
    ),
    max_leaves=6,
)
CONFIGS = st.text() | st.dictionaries(st.sampled_from(["type", "bridge", "vlan", "vlanTrunk"]), VALUES).map(
    json.dumps
)


def config(**fields: Any) -> str:
    """The configuration of a bridge network on `cluster-1`, with some fields changed."""
    base = {"cniVersion": "0.3.1", "name": "net", "type": "bridge", "bridge": "cluster-1-br", "ipam": {}}
    return json.dumps(base | fields)


def nad(text: str, **labels: str) -> NetworkAttachmentDefinition:
    """A NAD with that configuration."""
    return NetworkAttachmentDefinition(
        metadata=ObjectMeta(namespace="default", name="net", labels=labels),
        spec=NetworkAttachmentDefinitionSpec(config=text),
    )


@pytest.mark.parametrize(
    ("text", "network"),
    [
        (config(vlan=2012), VmNetwork(type="L2VlanNetwork", cluster_network="cluster-1", vid=2012)),
        (config(), VmNetwork(type="UntaggedNetwork", cluster_network="cluster-1")),
        (config(vlan=0), VmNetwork(type="UntaggedNetwork", cluster_network="cluster-1")),
        (
            config(vlanTrunk=[{"minID": 10, "maxID": 20}, {"id": 30}, {"minID": 40, "maxID": 41, "id": 50}]),
            VmNetwork(
                type="L2VlanTrunkNetwork",
                cluster_network="cluster-1",
                trunk=((10, 20), (30, 30), (40, 41), (50, 50)),
            ),
        ),
        ('{"type": "kube-ovn"}', VmNetwork(type="OverlayNetwork")),
        (config(type="macvlan"), None),
        (config(bridge="br0"), None),
        (config(bridge=7), None),
        ("{}", None),
        (config(Vlan=300), VmNetwork(type="L2VlanNetwork", cluster_network="cluster-1", vid=300)),
        (config(vlan=5, VLAN=6), VmNetwork(type="L2VlanNetwork", cluster_network="cluster-1", vid=6)),
        (config(VLAN=6, vlan=5), VmNetwork(type="L2VlanNetwork", cluster_network="cluster-1", vid=5)),
        (
            '{"type": "bridge", "bridge": "c-br", "vlan": 1, "VLAN": 2, "vlan": 3}',
            VmNetwork(type="L2VlanNetwork", cluster_network="c", vid=3),
        ),
        (config(vlan=5, Vlan=None), VmNetwork(type="L2VlanNetwork", cluster_network="cluster-1", vid=5)),
        (config(vlan=None), VmNetwork(type="UntaggedNetwork", cluster_network="cluster-1")),
        (
            config(vlanTrunk=[{"id": 5}], VLANTRUNK=None),
            VmNetwork(type="UntaggedNetwork", cluster_network="cluster-1"),
        ),
        (
            config(VLANTRUNK=[{"MINID": 5, "MaxId": 7, "ID": 9}]),
            VmNetwork(type="L2VlanTrunkNetwork", cluster_network="cluster-1", trunk=((5, 7), (9, 9))),
        ),
        (
            config(vlan=5, vlanTrunk=[{"id": 7}]),
            VmNetwork(type="L2VlanTrunkNetwork", cluster_network="cluster-1", trunk=((7, 7), (5, 5))),
        ),
        (
            config(vlan=99999, vlanTrunk=[{"id": 7}]),
            VmNetwork(type="L2VlanTrunkNetwork", cluster_network="cluster-1", trunk=((7, 7),)),
        ),
        (config(BRIDGE="mgmt-br"), VmNetwork(type="UntaggedNetwork", cluster_network="mgmt")),
        (config(Type="macvlan"), None),
        ('{"TYPE": "kube-ovn"}', VmNetwork(type="OverlayNetwork")),
    ],
)
def test_the_types_of_networks(text: str, network: VmNetwork | None) -> None:
    """Plugin, bridge, vlan and vlanTrunk decide the type, in any case; a NAD with other ones has none."""
    assert parse_config(text) == network


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "spec.config is not valid JSON; it must hold a CNI configuration"),
        (" ", "spec.config is not valid JSON; it must hold a CNI configuration"),
        ("[]", "spec.config must be a JSON object with a CNI configuration"),
        ("[" * 100_000, "spec.config is not valid JSON"),
        (config(vlan="2012"), 'spec.config.vlan is "2012"; it must be a number from 0 to 4094'),
        (config(vlan=True), "spec.config.vlan is true; it must be a number from 0 to 4094"),
        (config(vlan=4095), "spec.config.vlan is 4095; it must be a number from 0 to 4094"),
        (config(vlan=-1), "spec.config.vlan is -1; it must be a number from 0 to 4094"),
        (config(vlan=2012.0), "spec.config.vlan is 2012.0; it must be a number from 0 to 4094"),
        (config(vlanTrunk="10-20"), "spec.config.vlanTrunk must be a list of ranges with minID and maxID"),
        (
            config(vlanTrunk=[10]),
            "spec.config.vlanTrunk[0] must be an object with minID and maxID, or with id",
        ),
        (config(vlanTrunk=[{"id": 5}, {}]), "spec.config.vlanTrunk[1] is {}; ids must be numbers from 1 to"),
        (config(vlanTrunk=[{"minID": 9, "maxID": 8}]), "spec.config.vlanTrunk[0] is"),
        (config(vlanTrunk=[{"minID": 9}]), "spec.config.vlanTrunk[0] is"),
        (config(vlanTrunk=[{"minID": 9, "maxID": 10, "id": 0}]), "spec.config.vlanTrunk[0] is"),
        (config(vlanTrunk=[{"id": 4095}]), "spec.config.vlanTrunk[0] is"),
        (config(vlanTrunk=[{"ID": 4096}]), "spec.config.vlanTrunk[0] is"),
        (config(vlanTrunk=[{"id": 5, "ID": 0}]), "spec.config.vlanTrunk[0] is"),
        (config(vlanTrunk=[{"id": 5, "ID": None}]), "spec.config.vlanTrunk[0] is {}"),
        (config(vlan=5, Vlan="x"), 'spec.config.vlan is "x"'),
    ],
)
def test_broken_configurations_are_refused(text: str, message: str) -> None:
    """A configuration that no node could carry is refused with the field and what is allowed."""
    with pytest.raises(AnnotationError) as caught:
        parse_config(text)
    assert str(caught.value).startswith(message)


@st.composite
def recased(draw: st.DrawFn, key: str) -> str:
    """A key of which some letters are in the other case."""
    return "".join(draw(st.sampled_from([letter, letter.swapcase()])) for letter in key)


@given(st.lists(st.sampled_from(["vlan", "bridge", "type"]), min_size=1, max_size=6), st.data())
def test_the_last_key_wins_in_any_case(keys: list[str], data: st.DataObject) -> None:
    """Whatever the case of keys, each field has its last value, as for a reader that is written in Go."""
    values = {
        "vlan": st.integers(0, 4094),
        "bridge": st.sampled_from(["a-br", "b-br"]),
        "type": st.just("bridge"),
    }
    pairs = [("type", "bridge"), ("bridge", "c-br")] + [(key, data.draw(values[key])) for key in keys]
    typed = ", ".join(f"{json.dumps(data.draw(recased(key)))}: {json.dumps(value)}" for key, value in pairs)
    assert parse_config(f"{{{typed}}}") == parse_config(json.dumps(dict(pairs)))


@given(CONFIGS)
def test_any_text_is_a_network_or_refused(text: str) -> None:
    """Whatever stands in spec.config, the answer is a network with ids from 0 to 4094, None or a refusal."""
    try:
        network = parse_config(text)
    except AnnotationError as error:
        assert str(error).isprintable()
        return
    if network is not None:
        assert 0 <= network.vid <= 4094
        assert all(1 <= first <= last <= 4094 for first, last in network.trunk)
        assert not (network.vid and network.trunk)


def test_the_label_tells_the_cluster_network_first() -> None:
    """A NAD belongs to the cluster network of its label, else of its bridge; a broken one to none."""
    label = {names.CLUSTER_NETWORK_LABEL: "labelled"}
    assert cluster_network_of(nad(config(), **label)) == "labelled"
    assert cluster_network_of(nad("{", **label)) == "labelled"
    assert cluster_network_of(nad(config())) == "cluster-1"
    assert cluster_network_of(nad(config(bridge="br0"))) == ""
    assert cluster_network_of(nad("{")) == ""
