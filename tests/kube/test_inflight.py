"""What a webhook let through is remembered until it is seen, or can't come any more."""

from random import Random

from msgspec.structs import replace

from lanloom.api.core import NODES, Node
from lanloom.api.meta import Key, ObjectMeta
from lanloom.kube.inflight import SECONDS, InFlight
from lanloom.kube.informer import Informer
from lanloom.kube.ports import WatchEvent
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.harness.admission import request


def node(name: str = "a", version: str = "", told: str = "") -> Node:
    """A node in that version, with an annotation."""
    return Node(metadata=ObjectMeta(name=name, resource_version=version, annotations={"told": told}))


class Scene:
    """What is in flight in addition to the nodes of an informer that a test feeds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.in_flight = InFlight(lambda: self.now)
        engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
        self.informer = Informer(LocalClient(engine), NODES, rng=Random(1))
        self.in_flight.follow(NODES, self.informer)

    def brings(self, kind: str, item: Node) -> None:
        """The informer hears of a change."""
        change = self.informer.store.apply(WatchEvent(kind, item))  # type: ignore[arg-type]
        assert change is not None
        for handler in self.informer._handlers:
            handler(change.old, change.new)

    def adds(self, new: Node, old: Node | None = None, *, uid: str = "1", dry_run: bool = False) -> None:
        """A webhook allows a request."""
        asked = replace(request(NODES, {}, dry_run=dry_run), uid=uid)
        self.in_flight.add(NODES, asked, new, old)

    @property
    def names(self) -> list[str]:
        """What is in flight."""
        return [item.metadata.name for item in self.in_flight.of(NODES)]


def test_a_new_object_is_remembered_until_it_is_seen() -> None:
    """A creation counts until the watch brings an object of that name."""
    scene = Scene()
    scene.adds(node())
    scene.brings("ADDED", node("b", "5"))
    assert scene.names == ["a"]
    scene.brings("ADDED", node("a", "6"))
    assert scene.names == []


def test_a_change_is_remembered_until_a_newer_state_is_seen() -> None:
    """What the change is based on may come late, and says nothing of the change itself."""
    scene = Scene()
    scene.adds(node(version="5"), node("a", "5", told="before"))
    scene.brings("ADDED", node("a", "5"))
    assert scene.names == ["a"]
    scene.brings("MODIFIED", node("a", "7"))
    assert scene.names == []


def test_a_deleted_object_is_forgotten() -> None:
    """An object that is gone is not in flight, whatever the request was."""
    scene = Scene()
    scene.brings("ADDED", node("a", "5"))
    scene.adds(node(version="5"), node("a", "5", told="before"))
    scene.brings("DELETED", node("a", "6"))
    assert scene.names == []


def test_what_never_comes_is_forgotten() -> None:
    """A request that another webhook refused counts no longer than the API server may take."""
    scene = Scene()
    scene.adds(node())
    scene.now = SECONDS - 0.1
    assert scene.in_flight.get(NODES, Key("", "a")) is not None
    scene.now = SECONDS
    assert scene.in_flight.get(NODES, Key("", "a")) is None


def test_an_object_without_a_name_is_not_remembered() -> None:
    """Nothing could tell that it was seen."""
    scene = Scene()
    scene.adds(node(""))
    assert scene.names == []


def test_a_creation_of_what_is_there_is_not_in_flight() -> None:
    """The API server refuses such an object, and no watch ever brings it."""
    scene = Scene()
    scene.brings("ADDED", node("a", "5"))
    scene.adds(node())
    assert scene.names == []


def test_an_object_is_in_flight_until_something_newer_is_stored() -> None:
    """A list that is read live tells sooner than the watch what has come."""
    scene = Scene()
    scene.adds(node(version="5"), node("a", "5", told="before"))
    for version, coming in (("", 1), ("5", 1), ("6", 0)):
        stored = node("a", version) if version else None
        assert len(scene.in_flight.newer(NODES, {Key("", "a"): stored}.get)) == coming


def test_features_share_what_is_in_flight() -> None:
    """An object that several features allow is in flight once, and each may follow the informer."""
    scene = Scene()
    for _ in range(3):
        scene.in_flight.follow(NODES, scene.informer)
        scene.adds(node())
    assert scene.names == ["a"]
    assert len(scene.informer._handlers) == 1


def test_what_changes_nothing_is_not_in_flight() -> None:
    """A dry run, and an update that says what the object says already, stand against no other object."""
    scene = Scene()
    scene.adds(node(), dry_run=True)
    scene.adds(node(version="5"), node(version="5"))
    assert scene.names == []


def test_a_refused_request_leaves_what_was_allowed_before() -> None:
    """What one feature allowed and another refused is forgotten; an earlier request for that object is not."""
    scene = Scene()
    scene.adds(node(version="5", told="first"), node(version="5"))
    scene.adds(node(version="5", told="second"), node(version="5"), uid="2")
    assert scene.in_flight.of(NODES)[0].metadata.annotations == {"told": "second"}
    scene.in_flight.withdraw(replace(request(NODES, {}), uid="2"))
    assert scene.in_flight.of(NODES)[0].metadata.annotations == {"told": "first"}
    scene.in_flight.withdraw(request(NODES, {}))
    assert scene.names == []
