"""The words by which people mean an object."""

import pytest

from lanloom.api.meta import Key
from lanloom.processes.blockers.kinds import (
    KINDS,
    Misnamed,
    find_kind,
    find_target,
    words_of,
)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("dcn", "DummyClusterNetwork"),
        ("DummyClusterNetworks", "DummyClusterNetwork"),
        ("nad", "NetworkAttachmentDefinition"),
        ("net-attach-def", "NetworkAttachmentDefinition"),
        ("network-attachment-definitions.k8s.cni.cncf.io", "NetworkAttachmentDefinition"),
        ("network", "Network"),
        ("networks.ipam.lanloom.io", "Network"),
        ("nic", "Nic"),
        ("clusternetwork", "ClusterNetwork"),
        ("vc", "VlanConfig"),
        ("clusternetworknodes", "ClusterNetworkNode"),
        ("vm", "VirtualMachine"),
        ("pods", "Pod"),
        ("ns", "Namespace"),
        ("deploy", "Deployment"),
    ],
)
def test_words_that_kubectl_knows(word: str, kind: str) -> None:
    """A kind is meant by its name, its plural, its short names and with its group, in any case."""
    assert find_kind(word).kind == kind
    assert find_kind(word.upper()).kind == kind


def test_no_word_means_two_kinds() -> None:
    """Each word stands for one kind."""
    words = [word for resource in KINDS for word in words_of(resource)]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("dcn/br-dummy-cluster", Key("", "br-dummy-cluster")),
        ("nad/vlan2012", Key("here", "vlan2012")),
        ("nad/storage/vlan2012", Key("storage", "vlan2012")),
    ],
)
def test_targets(text: str, key: Key) -> None:
    """A namespace is what is written, else the one that is given; an object of the cluster is in none."""
    assert find_target(text, "here").key == key


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dcn", "write KIND/NAME"),
        ("dcn/", "write KIND/NAME"),
        ("a/b/c/d", "write KIND/NAME"),
        ("nonsense/a", "DummyClusterNetwork (dcn)"),
        ("dcn/default/a", "is in no namespace; write dcn/a"),
        ("pod/../a", "is no name"),
        ("pod/..", "is no name"),
        ("pod/\x1b[31m", "\\u001b"),
        ("pod/default/A?dryRun=None", "is no name"),
    ],
)
def test_what_names_nothing(text: str, said: str) -> None:
    """What can be no object's name is refused with what to write, and never reaches a URL or a terminal."""
    with pytest.raises(Misnamed) as refused:
        find_target(text, "default")
    assert said in str(refused.value)
    assert str(refused.value).isprintable()
