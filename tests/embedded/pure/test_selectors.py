"""Selectors choose what Kubernetes would choose, and refuse what it refuses, in its words."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lanloom.runtime.https.errors import BadRequest
from lanloom_embedded.kinds import GroupPlural
from lanloom_embedded.selectors import parse_fields, parse_labels

GOLDEN = Path(__file__).parents[2] / "golden/apiserver"
PODS = GroupPlural("", "pods")
WORDS = st.text("ab1", min_size=1, max_size=3)


@pytest.mark.parametrize(
    "case",
    yaml.load((GOLDEN / "label_selectors.yaml").read_text(), yaml.CSafeLoader),
    ids=lambda case: repr(case["text"]),
)
def test_label_selectors(case: dict[str, Any]) -> None:
    """A label selector selects and leaves out the objects of its case, or is refused with its message."""
    if "error" in case:
        with pytest.raises(BadRequest) as caught:
            parse_labels(case["text"])
        assert caught.value.message == case["error"]
        return
    selector = parse_labels(case["text"])
    assert all(selector.matches(labels) for labels in case.get("match", ()))
    assert not any(selector.matches(labels) for labels in case.get("miss", ()))


@given(st.text("ab!=<>(), in\\.-/", max_size=20))
def test_malformed_selectors_are_refused_politely(text: str) -> None:
    """Whatever the text, the answer is a selector or a BadRequest."""
    for parse in (parse_labels, lambda each: parse_fields(each, PODS)):
        try:
            parse(text)
        except BadRequest as error:
            assert error.message


@given(WORDS, st.lists(WORDS, min_size=1), st.dictionaries(WORDS, WORDS))
def test_in_is_the_opposite_of_notin(key: str, values: list[str], labels: dict[str, str]) -> None:
    """Every object is selected either by `in` or by `notin` of the same set."""
    listed = ",".join(values)
    inside = parse_labels(f"{key} in ({listed})").matches(labels)
    assert inside is not parse_labels(f"{key} notin ({listed})").matches(labels)


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name!=a", False),
        ("metadata.name==a,spec.nodeName=n1", True),
        ("spec.nodeName=", False),
        ("status.phase=", True),
        (r"metadata.namespace=x\,y\=z\\", True),
    ],
)
def test_field_selectors(text: str, selected: bool) -> None:
    """Field selectors compare text, absent fields are empty, and escapes stand for their character."""
    pod = {"metadata": {"name": "a", "namespace": "x,y=z\\"}, "spec": {"nodeName": "n1"}}
    assert parse_fields(text, PODS).matches(pod) is selected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spec.colour=red", "field label not supported: spec.colour"),
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        (r"metadata.name=a\b", r"invalid field selector: invalid escape sequence: \b"),
        ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_field_selectors_refused(text: str, message: str) -> None:
    """A field that can't be selected by, and a malformed term, are refused."""
    with pytest.raises(BadRequest) as caught:
        parse_fields(text, PODS)
    assert caught.value.message == message


def test_kinds_without_fields_of_their_own_say_so() -> None:
    """Kubernetes' own kinds name the two fields that are left; custom ones only refuse."""
    with pytest.raises(BadRequest) as caught:
        parse_fields("spec.size=3", GroupPlural("", "configmaps"))
    only = 'only "metadata.name", "metadata.namespace"'
    assert caught.value.message == f'"spec.size" is not a known field selector: {only}'
    with pytest.raises(BadRequest) as caught:
        parse_fields("spec.size=3", GroupPlural("k8s.cni.cncf.io", "network-attachment-definitions"))
    assert caught.value.message == "field label not supported: spec.size"


def test_a_node_without_the_mark_is_schedulable() -> None:
    """An absent spec.unschedulable counts as false."""
    assert parse_fields("spec.unschedulable=false", GroupPlural("", "nodes")).matches({"spec": {}})


def test_a_list_by_name_is_recognised() -> None:
    """The engine can tell which single name a selector wants."""
    assert parse_fields("metadata.name=a", PODS).exact("metadata.name") == "a"
    assert parse_fields("metadata.name!=a", PODS).exact("metadata.name") is None
