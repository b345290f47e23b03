"""Who uses a LAN, each once."""

from collections.abc import Callable, Container

from lanloom.api.lan import Spoke
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.lan.rules.users import users_of, with_attached
from lanloom.runtime.ports import NadRequest
from tests.features.lan.samples import lan

NAD = Key("default", "k8slan-veth-a")


class Use:
    """The users of one NAD, and the owners of pods."""

    def __init__(self, users: tuple[str, ...], owners: dict[str, str]) -> None:
        self._users = users
        self._owners = owners

    def users_on(self, nad: Key, nodes: Container[str]) -> tuple[str, ...]:
        """Nobody asks."""
        raise NotImplementedError

    def users_of(self, nad: Key, of: Callable[[str], bool] = lambda _namespace: True) -> tuple[str, ...]:
        """As the port says."""
        return tuple(user for user in self._users if nad == NAD and of(user.split()[1].partition("/")[0]))

    def user_of(self, pod: Key) -> str:
        """As the port says."""
        return self._owners.get(pod.name, f"Pod {pod}")

    def requests_of(self, nad: NetworkAttachmentDefinition) -> tuple[NadRequest, ...]:
        """As the port says."""
        return ()


def test_each_once() -> None:
    """A pod at a spoke counts as its owner, who is named once, with the remark that a reference has."""
    use = Use(
        ("VirtualMachine default/vm (on node1)", "Deployment default/web"),
        {"launcher": "VirtualMachine default/vm", "web-1": "Deployment default/web"},
    )
    there = [
        ("node1", Spoke(name=name, mode="veth", pod=pod))
        for name, pod in (("a", "default/launcher"), ("b", "default/web-1"), ("c", "t2/thief"), ("d", ""))
    ]
    assert with_attached(use, users_of(use, [NAD], lan()), there) == (
        "Deployment default/web",
        "Pod t2/thief",
        "VirtualMachine default/vm (on node1)",
    )
    assert with_attached(use, (), there[:1]) == ("VirtualMachine default/vm",)


def test_who_is_not_admitted() -> None:
    """Who refers to a NAD from a namespace that is not admitted is no user, unless it is attached."""
    use = Use(("Pod default/web", "Pod t2/thief"), {})
    assert users_of(use, [NAD], lan()) == ("Pod default/web",)
    assert users_of(use, [NAD], lan(namespaces=("t2",))) == ("Pod default/web", "Pod t2/thief")
    there = [("node1", Spoke(name="a", mode="veth", pod="t2/thief"))]
    both = ("Pod default/web", "Pod t2/thief")
    assert with_attached(use, users_of(use, [NAD], lan()), there) == users_of(use, [NAD], None) == both
