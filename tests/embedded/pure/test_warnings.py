"""Warnings are bounded as kube-apiserver bounds them."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from lanloom_embedded.engine.calls import Warnings
from lanloom_embedded.front.exchange import WARNING_BYTES, WARNING_HEADERS, warning_headers


def shown(*texts: str) -> list[str]:
    """What is sent of these texts."""
    warnings = Warnings()
    warnings.add(texts)
    return [value.decode().removeprefix('299 - "').removesuffix('"') for value in warning_headers(warnings)]


def test_each_text_is_told_once_and_in_full() -> None:
    """Distinct texts come in their order, each once, in full while all fit into 4,096 bytes."""
    assert shown("b", "a", "", "b") == ["b", "a"]
    assert shown("x" * 4_000, "y") == ["x" * 4_000, "y"]


def test_long_texts_are_cut() -> None:
    """Where all do not fit, each text is cut to 256 characters, and what is left out is counted."""
    assert shown("x" * 4_096, "é" * 300, "z") == ["x" * 256, "é" * 256, "z"]
    *told, last = shown(*(f"{number:03}" + "x" * 297 for number in range(100)))
    assert (len(told), last) == (14, "… and 86 more")


def test_many_texts_are_counted() -> None:
    """Of more than fifty short texts, fifty headers tell of all."""
    assert len(shown(*map(str, range(50)))) == 50
    *told, last = shown(*map(str, range(1000)))
    assert (told, last) == ([str(number) for number in range(49)], "… and 951 more")


@given(st.lists(st.text(max_size=600) | st.text('\\\\"\U0001f600', max_size=600), max_size=150))
def test_what_is_told_is_bounded(texts: list[str]) -> None:
    """No more than 4,096 bytes and fifty headers are sent, and every text is sent or counted."""
    warnings = Warnings()
    warnings.add(texts)
    values = warning_headers(warnings)
    assert sum(len(b"warning: ") + len(value) + len(b"\r\n") for value in values) <= WARNING_BYTES
    assert len(values) <= WARNING_HEADERS
    distinct = len(dict.fromkeys(filter(None, texts)))
    counted = [int(value.split()[4]) for value in values[-1:] if "… and".encode() in value]
    assert len(values) - len(counted) + sum(counted) == distinct or len(values) == distinct


def test_texts_beyond_the_bound_are_not_looked_at() -> None:
    """Of endlessly many texts only so many are asked for as could be sent."""
    asked = 0

    def endless() -> Iterator[str]:
        nonlocal asked
        while True:
            asked += 1
            yield str(asked)

    warnings = Warnings()
    warnings.add(endless())
    assert asked <= 4_097
    assert len(list(warnings)) <= 4_096
