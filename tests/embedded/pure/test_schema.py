"""Schemas prune, fill in and refuse what Kubernetes prunes, fills in and refuses, in its words."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lanloom.processes.definitions import manifests
from lanloom_embedded.schema import CompiledSchema, check_structural, unknown_formats
from lanloom_embedded.schema.scalars import PatternError, compile_pattern

GOLDEN = Path(__file__).parents[2] / "golden/apiserver"

VALIDATIONS = [
    pytest.param(case["schema"], value, expected, id=f"{case['name']}-{index}")
    for case in yaml.load((GOLDEN / "schema_validation.yaml").read_text(), yaml.CSafeLoader)
    for index, (value, *expected) in enumerate(case["values"])
]
KEYS = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("xy", max_size=3),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES)
LEAVES = st.sampled_from(
    [
        {"type": "string", "default": "x"},
        {"type": "integer", "minimum": 0},
        {"type": "boolean", "nullable": True},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    ]
)
SCHEMAS = st.dictionaries(
    KEYS,
    st.recursive(
        LEAVES,
        lambda below: (
            st.builds(
                lambda properties: {"type": "object", "properties": properties, "default": {}},
                st.dictionaries(KEYS, below),
            )
            | st.builds(lambda items: {"type": "array", "items": items}, below)
            | st.builds(lambda others: {"type": "object", "additionalProperties": others}, below)
        ),
        max_leaves=8,
    ),
).map(lambda properties: {"type": "object", "properties": properties})


@pytest.mark.parametrize(("schema", "value", "expected"), VALIDATIONS)
def test_validation(schema: dict[str, Any], value: Any, expected: list[str]) -> None:
    """Every rule that a value breaks is named with its field, in the order of the schema."""
    assert [str(error) for error in CompiledSchema(schema).validate(value)] == expected


STRICTER = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "maximum": 5},
        "in": {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
        },
        "plain": {"type": "array", "items": {"type": "integer"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    },
}


@pytest.mark.parametrize(
    ("old", "new", "broken"),
    [
        ({"a": 9}, {"a": 9, "b": 1}, []),
        ({"a": 9}, {"a": 8}, ["a"]),
        ({"a": 1}, {"a": True}, ["a"]),
        ({"in": {"y": 1}}, {"in": {"y": 1}, "a": 1}, []),
        ({"in": {"y": 1}}, {"in": {"y": 2}}, ["in.x"]),
        ({"keyed": [{"k": "a", "v": "1"}]}, {"keyed": [{"k": "b"}, {"k": "a", "v": "1"}]}, []),
        ({"keyed": [{"k": "a", "v": "1"}]}, {"keyed": [{"k": "a", "v": "2"}]}, ["keyed[0].v"]),
        ({"plain": ["x"]}, {"plain": ["x"], "a": 2}, []),
        ({"plain": ["x"]}, {"plain": ["x", 1]}, ["plain[0]"]),
        ({"set": ["x", "x"]}, {"set": ["x", "x", "y"]}, []),
        ({"set": ["x"]}, {"set": ["x", "x"]}, ["set[1]"]),
    ],
)
def test_updates_are_refused_for_what_they_change(
    old: dict[str, Any], new: dict[str, Any], broken: list[str]
) -> None:
    """An update may leave a value as it was that breaks the schema; a new or changed one must be valid."""
    assert [error.field for error in CompiledSchema(STRICTER).validate(new, old)] == broken


def test_numbers_must_fit() -> None:
    """A number beyond its type's or format's range is refused, whatever else allows it."""
    small = {"type": "object", "properties": {"n": {"type": "integer", "format": "int32"}}}
    assert not CompiledSchema(small).validate({"n": -(2**31)})
    assert CompiledSchema(small).validate({"n": 2**31})
    whole = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert not CompiledSchema(whole).validate({"n": 3.0})
    assert CompiledSchema(whole).validate({"n": 2**63})


def test_formats_that_nobody_knows_are_named() -> None:
    """Of all texts in a schema the unknown formats are reported; those of numbers and known ones are not."""
    text = {"type": "string", "format": "nonsense"}
    known = {"type": "string", "format": "date-time"}
    number = {"type": "integer", "format": "int99"}
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": text}, "b": known, "c": number},
    }
    assert list(unknown_formats(schema)) == ["nonsense"]


@pytest.mark.parametrize(
    "case", yaml.load((GOLDEN / "structural.yaml").read_text(), yaml.CSafeLoader), ids=str
)
def test_structural(case: list[Any]) -> None:
    """A schema that isn't structural is refused with the place and the reason."""
    schema, *expected = case
    assert [str(error) for error in check_structural(schema, "s")] == expected


@pytest.mark.parametrize("crd", manifests(), ids=lambda crd: crd["metadata"]["name"])
def test_own_schemas_are_structural(crd: dict[str, Any]) -> None:
    """The CRDs that Lanloom brings along keep the rules of structural schemas."""
    assert not check_structural(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "s")


def test_pruning_names_what_it_removes() -> None:
    """Unknown fields go, with their paths reported; type, metadata and what the schema keeps stay."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"a": {"type": "string"}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object"}},
            "free": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"known": {"type": "object"}},
            },
            "pod": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "properties": {"spec": {"type": "object"}},
            },
        },
    }
    obj = {
        "apiVersion": "v1",
        "metadata": {"anything": 1},
        "spec": {"a": "x", "b": 1},
        "list": [{"a": "x"}, {"c": 2}],
        "map": {"k": {"x": 1}},
        "free": {"any": {"thing": 1}, "known": {"x": 1}},
        "pod": {"kind": "Pod", "metadata": {"name": "a"}, "status": {}},
        "other": 1,
    }
    removed = CompiledSchema(schema).prune(obj)
    assert sorted(removed) == ["free.known.x", "list[1].c", "map.k.x", "other", "pod.status", "spec.b"]
    assert obj == {
        "apiVersion": "v1",
        "metadata": {"anything": 1},
        "spec": {"a": "x"},
        "list": [{"a": "x"}, {}],
        "map": {"k": {}},
        "free": {"any": {"thing": 1}, "known": {}},
        "pod": {"kind": "Pod", "metadata": {"name": "a"}},
    }


def test_defaults() -> None:
    """Absent fields and disallowed nulls get defaults, nested ones too, and no object shares them."""
    schema = {
        "type": "object",
        "properties": {
            "s": {"type": "string", "default": "x"},
            "n": {"type": "string", "nullable": True, "default": "y"},
            "o": {
                "type": "object",
                "default": {},
                "properties": {"l": {"type": "array", "items": {"type": "string"}, "default": []}},
            },
            "z": {"type": "string"},
        },
    }
    compiled = CompiledSchema(schema)
    first: dict[str, Any] = {"s": None, "n": None, "z": None}
    compiled.default(first)
    assert first == {"s": "x", "n": None, "o": {"l": []}}
    first["o"]["l"].append("changed")
    second: dict[str, Any] = {}
    compiled.default(second)
    assert second == {"s": "x", "n": "y", "o": {"l": []}}


@given(SCHEMAS, OBJECTS)
def test_pruning_twice_is_pruning_once(schema: dict[str, Any], obj: dict[str, Any]) -> None:
    """What pruning leaves, it leaves again."""
    compiled = CompiledSchema(schema)
    compiled.prune(obj)
    once = copy.deepcopy(obj)
    assert compiled.prune(obj) == []
    assert obj == once


@given(SCHEMAS, OBJECTS)
def test_defaulting_twice_is_defaulting_once(schema: dict[str, Any], obj: dict[str, Any]) -> None:
    """What defaulting leaves, it leaves again, and it adds nothing that pruning removes."""
    compiled = CompiledSchema(schema)
    compiled.prune(obj)
    compiled.default(obj)
    once = copy.deepcopy(obj)
    assert compiled.prune(obj) == []
    compiled.default(obj)
    assert obj == once


@given(SCHEMAS, OBJECTS)
def test_validation_never_fails_itself(schema: dict[str, Any], obj: dict[str, Any]) -> None:
    """Whatever the object, the answer is a list of errors that each name a field, and the object is unchanged."""
    before = copy.deepcopy(obj)
    assert all(error.field for error in CompiledSchema(schema).validate(obj))
    assert obj == before


WHERE = "spec.versions[0].schema.openAPIV3Schema"


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        ("b", "abc", True),
        (r"^\p{L}+$", "Straße", True),
        (r"^\d$", "٣", False),
        (r"^\w$", "ä", False),
        (r"\Aa\z", "a", True),
        ("(?i)^AB$", "ab", True),
        ("^[$]$", "$", True),
        (r"^\Q\C\E$", r"\C", True),
        ("^.$", "é", True),
    ],
)
def test_pattern_means_what_it_means_in_go(pattern: str, text: str, expected: bool) -> None:
    """A pattern matches what Go's regexp package matches."""
    assert compile_pattern(pattern)(text) is expected


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "(a*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_pattern_with_many_ways_to_match_is_linear(pattern: str) -> None:
    """A text of 100,000 characters is refused by a pattern for which a backtracking engine never ends."""
    assert not compile_pattern(pattern)("a" * 100_000 + "!")


@pytest.mark.parametrize("text", ["1" * 1_000_000, "1." * 500_000])
def test_long_row_of_digits_is_no_duration(text: str) -> None:
    """The format `duration` refuses a megabyte of digits in linear time."""
    schema = CompiledSchema({"type": "string", "format": "duration"})
    assert len(schema.validate(text)) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "pattern",
    ["(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", r"(a)\1", "(?P<n>a)(?P=n)", "(?>a)", "a++", r"a\Z", "a{1001}"],
)
def test_foreign_syntax_is_refused_when_the_definition_is_written(pattern: str) -> None:
    """A definition whose pattern RE2 doesn't have is refused with the field, the reason and the syntax to use."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    (error,) = check_structural(schema, WHERE)
    assert error.field == f"{WHERE}.properties[a].pattern"
    assert error.detail.startswith("must be a valid regular expression, but isn't: ")
    assert error.detail.endswith("the syntax is RE2's, without look-around and back-references")


@pytest.mark.parametrize("pattern", [r"\C", "\ud800", "((a{100}){100}){100}", "(", "[a"])
def test_pattern_that_cannot_be_compiled_tells_why(pattern: str) -> None:
    """A pattern that is too large, that is not UTF-8, or that may match half a character is an error with a reason."""
    with pytest.raises(PatternError, match=r"\w+ \S+"):
        compile_pattern(pattern)


def test_stored_pattern_that_cannot_be_compiled_matches_nothing() -> None:
    """A pattern of an older definition that RE2 doesn't have refuses every text instead of taking each."""
    schema = CompiledSchema({"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=a)"}}})
    assert [error.field for error in schema.validate({"a": "a"})] == ["a"]
