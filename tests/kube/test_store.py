"""Promises of the store that the model of the informer doesn't need."""

import pytest
from msgspec.structs import replace

from lanloom.api.meta import Key
from lanloom.kube.ports import EventType, WatchEvent
from lanloom.kube.store import Change, MutationCache, Overlay, Store
from tests.kube.things import Thing, thing


def _store(*items: Thing) -> Store[Thing]:
    store: Store[Thing] = Store({"colour": lambda item: [item.colour] if item.colour else []})
    assert [change.new for change in store.replace(items)] == list(items)
    return store


def _event(type: EventType, item: Thing) -> WatchEvent[Thing]:
    return WatchEvent(type, item)


def test_truth_is_refused() -> None:
    """A store is neither true nor false, because an empty one and a missing one are easily mixed up."""
    with pytest.raises(TypeError, match="ambiguous"):
        bool(_store())


def test_unknown_index() -> None:
    """An index that the store doesn't have is an error, a value without objects is not."""
    store = _store(thing("a", 1, "red"))
    assert store.by("colour", "blue") == () and not store.has("colour", "blue")
    with pytest.raises(KeyError):
        store.by("taste", "sour")


def test_replace_tells_the_differences() -> None:
    """A new list is reported as what was added, changed and removed; what is the same is not."""
    old = (thing("same", 1), thing("changed", 2), thing("gone", 3))
    store = _store(*old)
    changed, new = thing("changed", 5), thing("new", 6)
    assert list(store.replace([old[0], changed, new])) == [
        Change(old[1], changed),
        Change(None, new),
        Change(old[2], None),
    ]


def test_index_of_one_and_more() -> None:
    """An index has what it should when the second object of a value comes, and when either goes."""
    red = thing("a", 1, "red"), thing("b", 2, "red")
    for gone, left in (red, red[::-1]):
        store = _store(*red)
        assert store.by("colour", "red") == red
        store.apply(_event("DELETED", thing(gone.metadata.name, 3)))
        assert store.by("colour", "red") == (left,)
        store.apply(_event("MODIFIED", thing(left.metadata.name, 4, "blue")))
        assert not store.has("colour", "red") and store.by("colour", "red") == ()


def test_a_list_overrules_versions() -> None:
    """A list with lower versions, as after a restore from a backup, is believed."""
    store = _store(thing("a", 100, "red"))
    older = thing("a", 5, "blue")
    assert list(store.replace([older])) == [Change(thing("a", 100, "red"), older)]
    assert store.by("colour", "blue") == (older,) and store.has("colour", "blue")


def test_stale_events() -> None:
    """An event that is not newer than what is stored, or than the deletion, changes nothing."""
    store = _store(thing("a", 7, "red"))
    for type_ in ("ADDED", "MODIFIED", "DELETED"):
        assert store.apply(_event(type_, thing("a", 7, "blue"))) is None
        assert store.apply(_event(type_, thing("a", 6, "blue"))) is None
    assert store.apply(_event("DELETED", thing("a", 9))) == Change(thing("a", 7, "red"), None)
    assert store.apply(_event("MODIFIED", thing("a", 8))) is None
    assert store.apply(_event("ADDED", thing("a", 12))) == Change(None, thing("a", 12))


def test_versions_are_compared_as_numbers() -> None:
    """Version 10 is newer than version 9."""
    store = _store(thing("a", 9))
    assert store.apply(_event("MODIFIED", thing("a", 10))) == Change(thing("a", 9), thing("a", 10))


def test_versions_that_are_no_numbers() -> None:
    """Versions that are not decimal numbers can't be compared: the order of arrival counts."""
    store: Store[Thing] = Store()
    first, second = thing("a"), thing("a", text="new")
    assert store.apply(_event("ADDED", first)) == Change(None, first)
    assert store.apply(_event("MODIFIED", second)) == Change(first, second)
    assert store.apply(_event("DELETED", second)) == Change(second, None)
    assert store.apply(_event("ADDED", first)) == Change(None, first)
    assert store.get(Key("default", "a")) == first


def test_an_unknown_deletion() -> None:
    """The deletion of an object that the store never had is no change."""
    assert _store().apply(_event("DELETED", thing("a", 3))) is None


def test_an_own_write_counts_until_the_watch_brings_it() -> None:
    """A write hides older states of its object, and no longer when the watch has caught up, or brought a deletion."""
    key, store = Key("default", "a"), _store(thing("a", 5))
    written = MutationCache(store)
    assert written.get(key) == thing("a", 5)
    assert written.add(thing("a", 7, "red")) == thing("a", 7, "red")
    for version, colour in ((6, "red"), (7, "blue"), (8, "green")):
        change = store.apply(_event("MODIFIED", thing("a", version, colour)))
        assert change is not None
        written.observe(*change)
        assert written.get(key) == thing("a", max(version, 7), colour)
    written.add(thing("a", 9))
    written.observe(*store.apply(_event("DELETED", thing("a", 10))) or (None, None))
    assert written.get(key) is None
    store.apply(_event("ADDED", thing("a", 11)))
    assert written.get(key) == thing("a", 11)


def test_an_own_write_of_another_object() -> None:
    """The answer to a write of an object that was replaced by one of its name, or that is gone, does not count."""
    store = _store(thing("a", 5))
    written = MutationCache(store)
    meta = replace(thing("a", 7).metadata, uid="another")
    written.add(Thing(metadata=meta))
    assert written.get(Key("default", "a")) == thing("a", 5)
    written.add(thing("b", 7))
    store.apply(_event("ADDED", thing("b", 6)))
    assert written.get(Key("default", "b")) == thing("b", 6)


def test_an_overlay_is_what_a_store_would_be() -> None:
    """An overlay finds what a store would find with its objects in place of those of the same key."""
    under = (thing("a", 1, "red"), thing("b", 2, "red"), thing("c", 3, "blue"))
    over = (thing("b", 9, "blue"), thing("c", 9, "green"), thing("d", 9, "red"))
    overlay, store = Overlay(_store(*under), over), _store(under[0], *over)
    for colour in ("red", "blue", "green", ""):
        assert overlay.by("colour", colour) == store.by("colour", colour)
    for name in "abcde":
        assert overlay.get(Key("default", name)) == store.get(Key("default", name))
    with pytest.raises(KeyError):
        overlay.by("taste", "sour")


def test_an_overlay_of_many_is_indexed_once() -> None:
    """An overlay computes the values of each of its objects once, however many of them are asked for."""
    asked: list[str] = []

    def colours(item: Thing) -> list[str]:
        asked.append(item.metadata.name)
        return [item.colour]

    many = [thing(f"t{number}", 1, f"c{number}") for number in range(50)]
    overlay = Overlay(Store({"colour": colours}), many)
    assert [overlay.by("colour", item.colour) for item in many] == [(item,) for item in many]
    assert sorted(asked) == sorted(item.metadata.name for item in many)
