"""Who uses a LAN, each once."""

from lanloom.api.lan import Spoke
from lanloom.api.meta import Key
from lanloom.features.lan.rules.removal import users_of, with_attached
from lanloom.nads.references import User
from tests.features.lan.samples import lan

NAD = Key("default", "k8slan-veth-a")
WEB = User("Deployment", "default", "web")


class Use:
    """The users of one NAD, and the owners of pods."""

    def __init__(self, users: tuple[User, ...], owners: dict[str, User]) -> None:
        self._users = users
        self._owners = owners

    def users_of(self, nad: Key) -> tuple[User, ...]:
        """As the port says."""
        return self._users if nad == NAD else ()

    def user_of(self, pod: Key) -> User:
        """As the port says."""
        return self._owners.get(pod.name, User("Pod", pod.namespace, pod.name))

    def seen(self, uid: str) -> int | None:
        """Never called."""
        raise NotImplementedError


def test_each_once() -> None:
    """A pod at a spoke counts as its owner, who is named once, with the remark that a reference has."""
    use = Use(
        (User("VirtualMachine", "default", "vm", "on node1"), WEB),
        {"launcher": User("VirtualMachine", "default", "vm"), "web-1": WEB},
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


def test_a_user_of_two_nads() -> None:
    """A user of two NADs of a LAN is named once, on whichever nodes it uses each."""

    class TwoNads(Use):
        def users_of(self, nad: Key) -> tuple[User, ...]:
            return (User("Deployment", "default", "web", nodes=(nad.name,)),)

    assert users_of(TwoNads((), {}), [NAD, Key("default", "other")], lan()) == ("Deployment default/web",)


def test_who_is_not_admitted() -> None:
    """Who refers to a NAD from a namespace that is not admitted is no user, unless it is attached."""
    use = Use((User("Pod", "default", "web"), User("Pod", "t2", "thief")), {})
    assert users_of(use, [NAD], lan()) == ("Pod default/web",)
    assert users_of(use, [NAD], lan(namespaces=("t2",))) == ("Pod default/web", "Pod t2/thief")
    there = [("node1", Spoke(name="a", mode="veth", pod="t2/thief"))]
    both = ("Pod default/web", "Pod t2/thief")
    assert with_attached(use, users_of(use, [NAD], lan()), there) == users_of(use, [NAD], None) == both
