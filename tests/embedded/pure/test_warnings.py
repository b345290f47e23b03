"""Warnings are bounded as kube-apiserver bounds them."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from lanloom_embedded.engine.calls import Warnings


def shown(*texts: str) -> list[str]:
    """What is told of these texts."""
    warnings = Warnings()
    warnings.add(texts)
    return list(warnings)


def test_each_text_is_told_once_and_in_full() -> None:
    """Distinct texts come in their order, each once, in full while all have at most 4,096 characters."""
    assert shown("b", "a", "", "b") == ["b", "a"]
    assert shown("x" * 4_095, "y") == ["x" * 4_095, "y"]


def test_long_texts_are_cut() -> None:
    """Beyond 4,096 characters each text is cut to 256, and what comes after 4,096 of those is left out."""
    assert shown("x" * 4_096, "é" * 300, "z") == ["x" * 256, "é" * 256, "z"]
    assert shown(*(f"{number:03}" + "x" * 297 for number in range(100)))[-1].startswith("015")


@given(st.lists(st.text(max_size=600), max_size=50))
def test_what_is_told_is_bounded(texts: list[str]) -> None:
    """No more than 4,096 characters and one text of 256 are told."""
    assert sum(map(len, shown(*texts))) < 4_096 + 256


def test_texts_beyond_the_bound_are_not_looked_at() -> None:
    """Of endlessly many texts only so many are asked for as could be told."""
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
