"""The words by which users name an object."""

import pytest

from lanloom.api.meta import Key
from lanloom.processes.blockers import Kinds
from lanloom.processes.definitions import resources
from lanloom.refusals import Malformed

KINDS = Kinds()


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
    ],
)
def test_words_that_kubectl_knows(word: str, kind: str) -> None:
    """A kind is meant by its name, its plural, its short names and with its group, in any case."""
    assert KINDS.find(word).kind == kind
    assert KINDS.find(word.upper()).kind == kind


def test_the_kinds_are_those_of_the_features() -> None:
    """Each kind that a feature brings has words, and no word means two kinds."""
    words = [word for each in KINDS.words() for word in each]
    assert len(set(words)) == len(words)
    assert {KINDS.find(word) for word in words} == set(resources())


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
    assert KINDS.target(text, "here").key == key


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dcn", "write KIND/NAME"),
        ("dcn/", "write KIND/NAME"),
        ("a/b/c/d", "write KIND/NAME"),
        ("nonsense/a", "DummyClusterNetwork (dcn)"),
        ("pod/default/a", "kubectl get KIND NAME -o jsonpath={.metadata.finalizers}"),
        ("vm/a", "NetworkAttachmentDefinition (net-attach-def)"),
        ("dcn/default/a", "has no namespace; write dcn/a"),
        ("nad/../a", "is not a valid object name"),
        ("nad/..", "is not a valid object name"),
        ("nad/\x1b[31m", "\\u001b"),
        ("\x1b[31m/a", "\\u001b"),
        ("nad/default/A?dryRun=None", "is not a valid object name"),
    ],
)
def test_what_names_nothing(text: str, said: str) -> None:
    """What can be no object's name is refused with what to write, and never reaches a URL or a terminal."""
    with pytest.raises(Malformed) as refused:
        KINDS.target(text, "default")
    assert said in str(refused.value)
    assert str(refused.value).isprintable()
