"""Every type of the API is read from objects as others write them."""

import copy
import importlib
import json
import pkgutil
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from lanloom import api
from lanloom.api.meta import Condition, Key
from lanloom.api.reading import (
    ObjectDecoder,
    convert,
    unreadable,
    without_nulls,
)
from lanloom.api.resource import Resource
from tests.recorded import Raw, objects

RECORDED = objects()


def _resources() -> Iterator[Resource[Any]]:
    for module in pkgutil.iter_modules(api.__path__):
        names = vars(importlib.import_module(f"lanloom.api.{module.name}"))
        yield from {id(item): item for item in names.values() if isinstance(item, Resource)}.values()


RESOURCES = {(item.api_version, item.kind): item for item in _resources()}


def _title(item: Raw) -> str:
    return f"{item['kind']}-{item['metadata'].get('name', '')}"


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every entry of a map, at any depth."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from _paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, (*path, index))


def _nulled(item: Raw) -> Iterator[tuple[tuple[str | int, ...], bytes, bytes]]:
    """The object with a null in the place of each of its entries, and without that entry, as JSON."""
    for path in list(_paths(item)):
        place: Any = item
        for step in path[:-1]:
            place = place[step]
        kept, place[path[-1]] = place[path[-1]], None
        yield path, json.dumps(item).encode(), json.dumps(without_nulls(item)).encode()
        place[path[-1]] = kept


@pytest.mark.parametrize("item", RECORDED, ids=_title)
def test_recorded_objects_are_read(item: Raw) -> None:
    """An object that a cluster wrote is read, from the wire and from a review, to the same value."""
    resource = RESOURCES[item["apiVersion"], item["kind"]]
    decoded = ObjectDecoder(resource.type).decode(json.dumps(item).encode())
    assert decoded == convert(item, resource.type)
    assert decoded.metadata.name == item["metadata"].get("name", "")


def test_every_type_is_recorded() -> None:
    """There is an object of every kind that Lanloom reads."""
    recorded = {(item["apiVersion"], item["kind"]) for item in RECORDED}
    assert not RESOURCES.keys() - recorded


@pytest.mark.parametrize("item", RECORDED, ids=_title)
def test_null_is_absent(item: Raw) -> None:
    """A null in the place of any field is read as if the field were not there."""
    resource = RESOURCES[item["apiVersion"], item["kind"]]
    decoder: ObjectDecoder[Any] = ObjectDecoder(resource.type)

    def read(body: bytes) -> Any:
        try:
            # What is kept as it came may hold nulls, as a client that writes it back must not lose them.
            return without_nulls(msgspec.json.decode(msgspec.json.encode(decoder.decode(body))))
        except msgspec.ValidationError:
            return None

    for path, null, absent in _nulled(copy.deepcopy(item)):
        assert read(null) == read(absent), path


def test_a_required_field_is_required() -> None:
    """What can't be without a value is refused, null or absent, with the field's name."""
    for raw in ({"type": "Ready"}, {"type": "Ready", "status": None}):
        with pytest.raises(msgspec.ValidationError, match="status"):
            ObjectDecoder(Condition).decode(json.dumps(raw).encode())


def test_what_is_known_of_an_unreadable_object() -> None:
    """Namespace, name, uid and version of an object are known even where the rest of it is odd."""
    meta = {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "labels": 5}
    found = unreadable(json.dumps({"metadata": meta}).encode(), ValueError("odd"))
    assert (found.key, found.uid, found.resource_version, found.why) == (Key("b", "a"), "u", "7", "odd")


@pytest.mark.parametrize("body", [b"[]", b'{"metadata": 5}', b'{"metadata": {"name": []}}', b"[" * 5000])
def test_an_object_without_a_name(body: bytes) -> None:
    """What has no name, or is no object, is unreadable without one."""
    assert unreadable(body, ValueError("odd")).key == Key("", "")


def test_depth_is_no_surprise() -> None:
    """JSON that is nested too deep raises what any other malformed object raises."""
    deep = b'{"metadata": {"name": "x", "labels": ' + b"[" * 5000 + b"]" * 5000 + b"}}"
    with pytest.raises((msgspec.DecodeError, RecursionError)):
        ObjectDecoder(Condition).decode(deep)
