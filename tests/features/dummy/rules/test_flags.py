"""Settings as an operator gave them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from lanloom.features.dummy.rules.flags import (
    KEYS,
    Flags,
    read,
    read_entries,
    settings,
)
from lanloom.features.dummy.rules.model import Settings
from lanloom.refusals import Malformed
from tests.features.dummy.rules.made import IMAGE

GOOD: list[tuple[str, str, Any]] = [
    ("default", "TRUE", True),
    ("default", " off ", False),
    ("name", "a.b-c", "a.b-c"),
    ("bridge", "other-br", "other-br"),
    ("nad", "net", "net"),
    ("nad_namespace", "default", "default"),
    ("image", IMAGE, IMAGE),
    ("namespace", "other", "other"),
    ("node_timeout", "90", 90.0),
    ("node_timeout", "1.5", 1.5),
    ("service_cidrs", "10.43.0.0/16", ("10.43.0.0/16",)),
    (
        "pod_cidrs",
        "10.42.0.0/16, fd00:42::/56 10.44.0.0/16",
        ("10.42.0.0/16", "fd00:42::/56", "10.44.0.0/16"),
    ),
    ("pod_cidrs", "", None),
    ("image", "  ", None),
]
BAD: list[tuple[str, str, str]] = [
    ("default", "maybe", '"maybe" must be true or false'),
    ("name", "A", "can't be the name of a DummyClusterNetwork"),
    ("name", "a..b", "can't be the name"),
    ("name", "x" * 254, "can't be the name"),
    ("bridge", "mgmt-br", "is reserved for other links"),
    ("bridge", "far-too-long-name", "can't be the name of a bridge"),
    ("nad", "a.b", "can't be the name of a NAD"),
    ("nad_namespace", "A", "can't be the name of a namespace"),
    ("image", "lanloom:0.1.0", "NAME@sha256:"),
    ("namespace", "a/b", "can't be the name of a namespace"),
    ("node_timeout", "soon", "is not a number of seconds from 1 to 86400"),
    ("node_timeout", "0", "is not a number of seconds"),
    ("node_timeout", "-1", "is not a number of seconds"),
    ("node_timeout", "nan", "is not a number of seconds"),
    ("node_timeout", "inf", "is not a number of seconds"),
    ("node_timeout", "100000", "is not a number of seconds"),
    ("service_cidrs", "10.43.0.1/16", '"10.43.0.1/16" is not a CIDR'),
    ("pod_cidrs", "10.42.0.0/16;10.44.0.0/16", "is not a CIDR: write a list such as"),
]


def test_everything_can_be_said() -> None:
    """There is a way to say each setting."""
    assert {item.name for item in fields(Flags)} == {item.name for item in fields(Settings)}
    assert {*KEYS.values()} | {"namespace"} == {item.name for item in fields(Settings)}


@pytest.mark.parametrize(("field", "text", "value"), GOOD)
def test_good_texts(field: str, text: str, value: object) -> None:
    """A text that is right becomes a value; an empty one says nothing."""
    assert read(field, text) == value


@pytest.mark.parametrize(("field", "text", "why"), BAD)
def test_bad_texts(field: str, text: str, why: str) -> None:
    """A text that is wrong is refused, and the message says what could stand there."""
    with pytest.raises(Malformed) as caught:
        read(field, text)
    assert why in str(caught.value)


@given(st.sampled_from([item.name for item in fields(Settings)]), st.text())
def test_any_text_is_judged(field: str, text: str) -> None:
    """Whatever a user writes, it is understood or refused; nothing else happens."""
    try:
        read(field, text)
    except Malformed as error:
        assert str(error)


def test_the_first_to_speak_holds() -> None:
    """What one source says goes before what another says, and that before the defaults."""
    flags, entries = Flags(name="a", default=False), Flags(name="b", bridge="b-br")
    found = settings(flags.over(entries))
    assert (found.name, found.bridge, found.default, found.nad) == ("a", "b-br", False, "dummy-bridge-net")


def test_an_image_that_was_named_goes_before_our_own() -> None:
    """The manager's own image is only for the case that none was named."""
    assert settings(Flags(), "own").image == "own"
    assert settings(Flags(image=IMAGE), "own").image == IMAGE


def test_entries_are_read() -> None:
    """The entries of a ConfigMap are settings, each by its name."""
    data = {"default": "false", "nadNamespace": "a", "nodeTimeout": "60", "podCIDRs": "10.42.0.0/16"}
    found, faults = read_entries(data, Flags())
    assert found == Flags(default=False, nad_namespace="a", node_timeout=60.0, pod_cidrs=("10.42.0.0/16",))
    assert faults == ()


def test_an_entry_that_is_wrong_changes_nothing() -> None:
    """What an entry said before holds on where it can't be read; the others take effect; each fault names its entry."""
    last = Flags(node_timeout=60.0, bridge="a-br")
    found, faults = read_entries({"nodeTimeout": "soon", "name": "b", "colour": "red"}, last)
    assert found == Flags(node_timeout=60.0, name="b")
    assert [text.partition(":")[0] for text in faults] == ["colour", "nodeTimeout"]
    assert "known settings are bridge, default, image," in faults[0]
