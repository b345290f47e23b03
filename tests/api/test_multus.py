"""What Multus tells of a pod's interfaces, and texts that tell nothing."""

import json

import pytest

from lanloom.api.multus import NETWORKS_MAX, interfaces_of

STATUS = [
    {"name": "k8s-pod-network", "ips": ["10.244.0.5"], "default": True, "dns": {}},
    {"name": "default/vlan10", "interface": "pod37a8eec1ce1", "mac": "02:00:00:00:00:01", "dns": None},
    {"name": "red/lan", "Interface": "pod1b4f0e98519", "device-info": {"type": "x"}},
]


def test_networks_by_interface() -> None:
    """Each interface has the network that Multus names, and unknown fields and entries without one are passed over."""
    text = json.dumps([*STATUS, 7, {"name": None, "interface": "eth1"}, {"name": "a/b", "interface": 3}])
    assert interfaces_of(text) == {"pod37a8eec1ce1": "default/vlan10", "pod1b4f0e98519": "red/lan"}


def test_no_annotation_names_nothing() -> None:
    """A pod without the annotation has no interfaces that Multus made."""
    assert interfaces_of("") == {} == interfaces_of("[]")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not valid JSON"),
        ('{"name": "a"}', "must be a list"),
        ("[" * 60_000, "nested too deeply"),
        (json.dumps([{}] * (NETWORKS_MAX + 1)), "more than 128"),
        (" " * 65_536 + "[", "longer than 65536"),
    ],
)
def test_unreadable(text: str, why: str) -> None:
    """A text that is no list of interfaces, or too much of one, is refused with the reason."""
    with pytest.raises(ValueError, match=why):
        interfaces_of(text)
