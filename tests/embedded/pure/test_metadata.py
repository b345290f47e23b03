"""Metadata that can't be read."""

from typing import Any

import pytest

from lanloom.runtime.https.errors import BadRequest
from lanloom_embedded.engine.metadata import clean

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"name": "net", "annotations": {"fine": "x", "network.harvesterhci.io/l3-connectivity": True}},
            'can\'t read Widget "net" because metadata.annotations["network.harvesterhci.io/l3-connectivity"] is true; '
            "it must be a string",
        ),
        (
            {"name": "net", "labels": {"vlan-id": 5}},
            'can\'t read Widget "net" because metadata.labels["vlan-id"] is 5; it must be a string',
        ),
        (
            {"name": 7},
            "can't read a Widget because metadata.name is 7; it must be a string",
        ),
        (
            {"name": "net", "labels": ["a"]},
            'can\'t read Widget "net" because metadata.labels is a list; it must be an object',
        ),
        (
            {"name": "net", "generation": True},
            'can\'t read Widget "net" because metadata.generation is true; it must be a whole number',
        ),
        (
            {"name": "net", "finalizers": ["a", None]},
            'can\'t read Widget "net" because metadata.finalizers[1] is null; it must be a string',
        ),
        (
            {"name": "net", "ownerReferences": [OWNER, {**OWNER, "controller": "yes"}]},
            'can\'t read Widget "net" because metadata.ownerReferences[1].controller is "yes"; it must be '
            "true or false",
        ),
        ("x", 'can\'t read a Widget because metadata is "x"; it must be an object'),
    ],
)
def test_what_cannot_be_read_is_named(value: Any, message: str) -> None:
    """A refusal of metadata names the object, the field or key, its value, and what it must be."""
    with pytest.raises(BadRequest) as caught:
        clean(value, "Widget")
    assert caught.value.message == message


def test_nulls_are_absent() -> None:
    """A null is no value: that of a label or annotation is an empty text, any other is left out."""
    assert clean({"name": "a", "labels": {"b": None}, "finalizers": None}, "Widget") == {
        "name": "a",
        "labels": {"b": ""},
    }
    assert clean(None, "Widget") == {}
