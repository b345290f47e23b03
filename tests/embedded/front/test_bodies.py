"""Request bodies: bounded before anything is built from them, and read as kube-apiserver reads them."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.runtime.https import bodies
from lanloom.runtime.https.errors import BadRequest, EntityTooLarge, StatusError
from lanloom.runtime.https.shares import INLINE_BYTES, Share, Shares
from lanloom_embedded.front.bodies import (
    JSON,
    MOST_VALUES,
    PROTOBUF,
    YAML,
    fits,
    from_float,
    from_json,
    from_yaml,
    has_long_integers,
    narrowed,
    read_object,
    read_patch,
)
from lanloom_embedded.front.protobuf import MAGIC
from lanloom_embedded.kinds import Raw

JSON_SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text('\\"[]{},: aé')
VALUES = st.recursive(
    JSON_SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('\\"[{,'), inner, max_size=4),
)


def _depth(value: Any) -> int:
    if isinstance(value, dict | list):
        return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)
    return 0


def _values(value: Any) -> int:
    if isinstance(value, dict | list):
        below = list(value.values() if isinstance(value, dict) else value)
        return 1 + (sum(map(_values, below)) if below else 1)
    return 1


@given(VALUES)
def test_values_are_counted_whatever_stands_in_strings(value: Any) -> None:
    """The number of values is that of the document, brackets and quotes within its strings aside."""
    assert bodies.count_values(msgspec.json.encode(value)) == _values(value)


@given(VALUES, st.integers(0, bodies.DEPTH + 2))
def test_depth_is_exact(value: Any, levels: int) -> None:
    """A document passes if and only if it has at most so many levels."""
    text = b"[" * levels + msgspec.json.encode(value) + b"]" * levels
    if _depth(value) + levels > bodies.DEPTH:
        with pytest.raises(BadRequest, match="nested more than 100 levels deep"):
            bodies.check_json(text)
    else:
        bodies.check_json(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"[" * 3_000_000, id="openings"),
        pytest.param(b"[" + b"[]," * 1_000_000, id="lists"),
        pytest.param(b"[" + b"1," * 1_500_000, id="numbers"),
        pytest.param(b"[" + b'"",' * 1_000_000, id="texts"),
        pytest.param(b",[" * 100_000 + b'"' * 3_000_000, id="quotes"),
    ],
)
def test_too_many_values_are_refused(text: bytes) -> None:
    """A text with more values than allowed is refused, well-formed or not."""
    with pytest.raises(EntityTooLarge, match="more than 100000 values"):
        bodies.check_json(text)


@pytest.mark.parametrize("text", [b'"' + b'[{,\\"\\\\' * 300_000 + b'"', b'"\\' * 500_000 + b"x"])
def test_long_texts_pass(text: bytes) -> None:
    """Brackets, commas and escapes within a string are no values."""
    bodies.check_json(text)


def test_digits_are_bounded() -> None:
    """A number of more than 400 digits is refused before it is built; text of digits is no number."""
    many = b"9" * (bodies.NUMBER_DIGITS + 1)
    bodies.check_numbers(b'{"%s": ["%s", %s]}' % (many, many, many[1:]))
    for number in (many, b"-" + many, b"0." + many):
        with pytest.raises(ValueError, match="more than 400 digits"):
            bodies.check_numbers(b'{"a": ["x", %s]}' % number)


def test_objects_have_a_size() -> None:
    """An object that is larger than what may be stored is refused by its name."""
    bodies.check_object("ConfigMap", "a", b"x" * bodies.OBJECT_BYTES)
    with pytest.raises(EntityTooLarge, match="ConfigMap a would take 1572865 bytes, the limit is 1572864"):
        bodies.check_object("ConfigMap", "a", b"x" * (bodies.OBJECT_BYTES + 1))


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**30), 10**30).map(float))
def test_numbers_keep_to_64_bits(number: float) -> None:
    """A number is an integer only where 64 bits hold it, and can be written as JSON."""
    read = from_float(repr(number))
    assert (read == number, isinstance(read, int)) == (True, number == int(number) and fits(number))
    msgspec.json.encode(read)


@given(
    st.recursive(
        JSON_SCALARS | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_integers_of_any_length_are_narrowed(value: Any) -> None:
    """An integer of more than 64 bits becomes a double, however deep it stands; nothing else changes."""
    text = str(value).encode()
    before = repr(value)
    after = narrowed(value)
    msgspec.json.encode(after)
    if not has_long_integers(text):
        assert repr(after) == before


def test_a_number_that_no_double_holds_is_refused() -> None:
    """An integer beyond the largest double is refused, and named in short."""
    with pytest.raises(ValueError, match=r"the number 9{40}… is too large"):
        narrowed([int("9" * 400)])


def test_whole_numbers_are_integers() -> None:
    """A number without a fraction is an integer however it is written, if 64 bits hold it."""
    numbers = b"[3.0, 1e3, 1.5, 2, 9223372036854775807, 9223372036854775808, 1e22]"
    assert repr(from_json(numbers)) == "[3, 1000, 1.5, 2, 9223372036854775807, 9.223372036854776e+18, 1e+22]"


@pytest.mark.parametrize(
    "body", [b"1e999", b"9" * 400, b"9" * 401, b"9" * 5_000, b"{nonsense", b"", b"[" * 90]
)
def test_what_is_no_json_is_a_value_error(body: bytes) -> None:
    """A document that can't be read, or not without loss, is refused."""
    with pytest.raises(ValueError, match="json parse error"):
        from_json(body)


async def receive_from(body: bytes) -> Mapping[str, Any]:
    """An ASGI message with the whole body."""
    return {"type": "http.request", "body": body}


def share() -> Share:
    """The share of the only user."""
    return Share(Shares(), "a")


LONG = {
    JSON: b'{"a":"%s"}' % (b"x" * INLINE_BYTES),
    YAML: b'a: "%s"' % (b"x" * INLINE_BYTES),
}


@pytest.mark.parametrize("media_type", LONG)
async def test_long_bodies_are_decoded_beside_the_event_loop(media_type: str) -> None:
    """The event loop goes on while a long body is decoded; a short one is decoded at once."""
    for body, at_once in ((LONG[media_type], False), (b"{}", True)):
        task: asyncio.Task[Raw] = asyncio.create_task(
            read_object(lambda body=body: receive_from(body), share(), media_type, "ConfigMap")  # type: ignore[misc]
        )
        await asyncio.sleep(0)
        assert task.done() is at_once
        await task


async def test_long_patches_are_decoded_beside_the_event_loop() -> None:
    """A long patch is decoded as a long object is."""
    task = asyncio.create_task(read_patch(lambda: receive_from(LONG[JSON]), share()))
    await asyncio.sleep(0)
    assert not task.done()
    assert await task == {"a": "x" * INLINE_BYTES}


async def test_fields_of_protobuf_are_counted() -> None:
    """A protobuf body with more fields than allowed is refused, also if they are unknown."""
    body = MAGIC + b"\x78\x00" * 150_000
    with pytest.raises(EntityTooLarge, match="more than 100000 values"):
        await read_object(lambda: receive_from(body), share(), PROTOBUF, "ConfigMap")


TEXTS = st.text(
    st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"], exclude_characters="\x7f"), max_size=50
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e300, 1e300) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)  # fmt: skip

YAML_SCALARS = {
    "": None, "~": None, "Null": None, "nULL": "nULL",
    "yes": True, "Y": True, "ON": True, "n": False, "Off": False, "tRUE": "tRUE",
    "0": 0, "-7": -7, "+7": 7, "010": 8, "0o17": 15, "0x1F": 31, "-0b11": -3, "1_000": 1000,
    "08": 8, "1.5": 1.5, ".5": 0.5, "2.": 2, "1e3": 1000, "1E-1": 0.1, "3.0": 3,
    "18446744073709551615": 1.8446744073709552e19, "1e22": 1e22, "123456789012345678901234": 1.2345678901234568e23,
    "1:30": "1:30", "1:1:1.5": "1:1:1.5", "190:20:30": "190:20:30", "1e999": "1e999", "1.2.3": "1.2.3", "+": "+",
    "2001-12-14": "2001-12-14", "2001-12-14 21:59:43": "2001-12-14 21:59:43", "=": "=", "1__": 1,
    "'5'": "5", '"yes"': "yes", "!!str 5": "5", "! 5": "5", "!!int 5": 5, "!!float 5": 5, "!!bool on": True,
    "!!null ~": None, "!!binary aGk=": "hi", "!!timestamp 2001-12-14": "2001-12-14",
}  # fmt: skip


@pytest.mark.parametrize("text", YAML_SCALARS)
def test_scalars_are_those_of_kubernetes(text: str) -> None:
    """A scalar becomes what sigs.k8s.io/yaml makes of it; there is no base 60 and there are no dates."""
    assert repr(from_yaml(b"v: " + text.encode())) == repr({"v": YAML_SCALARS[text]})


@pytest.mark.parametrize(
    ("key", "name"), [("1", "1"), ("true", "true"), ("No", "false"), ("1.5", "1.5"), ("'<<'", "<<")]
)
def test_names_of_fields_are_text(key: str, name: str) -> None:
    """A scalar that stands for a name becomes text."""
    assert from_yaml(f"{key}: x".encode()) == {name: "x"}


@given(JSON_VALUES)
def test_json_is_yaml(value: Any) -> None:
    """JSON is YAML and means the same in both."""
    as_json = msgspec.json.decode(msgspec.json.encode(value))
    assert from_yaml(json.dumps(value).encode()) == as_json


@pytest.mark.parametrize("body", [b"", b"# nothing\n", b"---\n"])
def test_no_document_is_null(body: bytes) -> None:
    """A body without a document is null."""
    assert from_yaml(body) is None


REFUSED = {
    "alias": (b"a: &a [x]\nb: *a\n", "line 2, column 4: aliases are not accepted"),
    "merge": (b"<<: {a: 1}", "merge keys"),
    "two-documents": (b"a: 1\n---\nb: 1\n", "a body is one document"),
    "list-as-name": (b"[a]: 1", "the name of a field must be text"),
    "null-as-name": (b"~: 1", "must not be null"),
    "infinite": (b"a: -.inf", "JSON has no number -.inf"),
    "python": (b"a: !!python/object/apply:os.system [x]", "the tag .* is not accepted"),
    "python-scalar": (b"a: !!python/name:os.system x", "the tag .* is not accepted"),
    "own-tag": (b"a: !mine x", "the tag !mine is not accepted"),
    "wrong-tag": (b"a: !!int x", "not of its tag's type int"),
    "bad-base64": (b"a: !!binary 5", "not text in base64"),
    "binary-bytes": (b"a: !!binary /w==", "not text in base64"),
    "broken": (b"a: [", "yaml parse error"),
    "directives": (b"".join(b"%%TAG !%d! x\n" % i for i in range(9)) + b"---\na: 1", "more than 8 %TAG directives"),
    "not-utf-8": (b"a: \xff", "utf-8"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_json_is_refused_at_its_place(name: str) -> None:
    """What JSON has not, and what takes time or memory, is refused."""
    body, why = REFUSED[name]
    with pytest.raises(ValueError, match=why):
        from_yaml(body)


def _bombs() -> Iterator[tuple[str, bytes]]:
    many = MOST_VALUES + 1
    yield "braces", b"[" * 3_000_000
    yield "questions", b"? " * 1_500_000
    yield "dashes", b"- " * 1_500_000
    yield "nested", b"{a: " * 101 + b"1" + b"}" * 101
    yield "indented", b"".join(b" " * i + b"a:\n" for i in range(200))
    yield "keys", b"\n".join(b"k%d: 1" % i for i in range(many))
    yield "items", b"[" + b"1," * many + b"]"


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in _bombs()])
def test_size_is_bounded_while_reading(body: bytes) -> None:
    """Nesting and the number of values are bounded before the rest of the body is read."""
    with pytest.raises((StatusError, ValueError), match=r"levels deep|values|must be text"):
        from_yaml(body)


def test_depth_is_that_of_json() -> None:
    """As many levels pass as in JSON."""
    text = b"[" * bodies.DEPTH + b"1" + b"]" * bodies.DEPTH
    assert from_yaml(text) == msgspec.json.decode(text)
