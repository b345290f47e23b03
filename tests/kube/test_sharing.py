"""What is read is in memory once: equal strings of all objects are one, and nothing else of them changes."""

import sys
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given
from msgspec import Struct

from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.codec import Codec, share


class Part(Struct, frozen=True):
    """A part of an object."""

    text: str = ""
    maybe: str | None = None
    parts: tuple["Part", ...] = ()


class Whole(Object, frozen=True, kw_only=True):
    """An object with a field of each form that kinds have."""

    part: Part = Part()
    texts: tuple[str, ...] = ()
    pair: tuple[str, int] | None = None
    listed: list[Part] = []
    named: dict[str, Part] = {}
    free: dict[str, Any] = {}
    number: float = 0.0
    said: bool = False


WHOLES = Resource(
    group="example.org", version="v1", kind="Whole", plural="wholes", type=Whole, namespaced=True
)

texts = st.text(max_size=3) | st.sampled_from(["a text", "a longer text, of which there is more than one"])
trees = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 500) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
parts = st.recursive(
    st.builds(Part, texts, st.none() | texts),
    lambda inner: st.builds(Part, texts, st.none(), st.lists(inner, max_size=2).map(tuple)),
    max_leaves=3,
)
wholes = st.builds(
    Whole,
    part=parts,
    texts=st.lists(texts, max_size=3).map(tuple),
    pair=st.none() | st.tuples(texts, st.integers(0, 3)),
    listed=st.lists(parts, max_size=2),
    named=st.dictionaries(texts, parts, max_size=2),
    free=st.dictionaries(texts, trees, max_size=3),
    number=st.floats(0, 9),
    said=st.booleans(),
)


def _strings(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case Struct():
            value = [getattr(value, name) for name in value.__struct_fields__]
        case dict():
            value = [*value, *value.values()]
    return [text for each in value for text in _strings(each)] if isinstance(value, list | tuple) else []


@given(wholes)
def test_equal(item: Whole) -> None:
    """An object that was shared is equal to what it was, to the byte."""
    body = msgspec.json.encode(item)
    read = msgspec.json.decode(body, type=Whole)
    assert share(read) is read and read == item
    assert msgspec.json.encode(read) == body


@given(st.lists(wholes, max_size=3))
def test_once(items: list[Whole]) -> None:
    """Equal strings of what is read are one string, in whichever object and whichever answer they are."""
    codec, bodies = Codec(WHOLES), [msgspec.json.encode(item) for item in items]
    page = b'{"metadata": {}, "items": [%s]}' % b", ".join(bodies)
    events = [codec.event(b'{"type": "ADDED", "object": %s}' % body).object for body in bodies]
    found = [*map(codec.object, bodies), *(codec.page(page).items or ()), *events]
    assert found == items * 3
    known: dict[str, str] = {}
    for text in _strings(found):
        assert known.setdefault(text, text) is text


def test_unreadable_neighbour() -> None:
    """Objects of a page of which one can't be read are shared like any other."""
    body = b'{"metadata": {}, "items": [{"texts": ["not once"]}, {"texts": 1}, {"texts": ["not once"]}]}'
    one, other = Codec(WHOLES).page(body).items or [Whole(), Whole()]
    assert one.texts[0] is other.texts[0]


@pytest.mark.parametrize("depth", [100, 400, 600, 900])
def test_deep_nesting(depth: int) -> None:
    """Whatever the decoder can read is read, one by one, in a list and by a watch, however deep it is."""
    body = b'{"free": %s1%s}' % (b'{"a": ' * depth, b"}" * depth)
    codec, expected = Codec(WHOLES), msgspec.json.decode(body, type=Whole)
    page = codec.page(b'{"metadata": {}, "items": [%s]}' % body)
    event = codec.event(b'{"type": "ADDED", "object": %s}' % body)
    assert [codec.object(body), *(page.items or ()), event.object] == [expected] * 3


def test_nothing_is_kept() -> None:
    """A text leaves memory with the last object that has it."""
    body = b'{"part": {"text": "a text that one object has"}}'
    item = Codec(WHOLES).object(body)
    assert sys.intern(_fresh("a text that one object has")) is item.part.text
    del item
    again = _fresh("a text that one object has")
    assert sys.intern(again) is again


def _fresh(text: str) -> str:
    """Return an equal string that is in no pool."""
    return msgspec.json.decode(msgspec.json.encode(text), type=str)
