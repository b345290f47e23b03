"""How `docs/validation.md` is written from tests: a table for each of them, a row for each of its cases.

A case has a `message`, and each test is parametrised by a mapping of rules to cases. So the page shows what users
really see, and a refusal without a case is found.
"""

import ast
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from tests.harness.syntax import parse

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/validation.md"
END = "<!-- end -->"


class Refusal(Protocol):
    """A case."""

    @property
    def message(self) -> str:
        """With what it is refused."""
        ...


Group = tuple[str, Any, Mapping[str, Any]]
"""The title of a table, the test, and its cases by rule."""


def check_page(groups: Sequence[Group], file: str) -> None:
    """The page's part that `file` writes is what follows from the groups; LANLOOM_GOLDEN=rewrite writes it again."""
    begin = f"<!-- written by {file} -->"
    page = PAGE.read_text()
    head, found, rest = page.partition(begin)
    current, _, tail = rest.partition(END)
    wanted = f"\n\n{_written(groups)}\n"
    assert found, f"{PAGE} has no place for {file}"
    if os.environ.get("LANLOOM_GOLDEN") == "rewrite":
        PAGE.write_text(f"{head}{begin}{wanted}{END}{tail}")
    else:
        assert current == wanted


def check_group(test: Any, cases: Mapping[str, Any], answer: Callable[[Any], str]) -> None:
    """The test runs just these cases, and their messages are really given."""
    (mark,) = (mark for mark in test.pytestmark if mark.name == "parametrize")
    assert dict(zip(mark.kwargs["ids"], mark.args[1], strict=True)) == dict(cases)
    assert [answer(case) for case in cases.values()] == [case.message for case in cases.values()]


def unshown(
    rules: Iterable[Path], groups: Sequence[Group], answer: Callable[[Any], str]
) -> list[tuple[str, int]]:
    """Where the rules refuse a request, and no case takes that way: file and line."""
    files = list(rules)
    taken = _lines_run_by(files, lambda: [answer(case) for _, _, cases in groups for case in cases.values()])
    return sorted(set(_refusals(files)) - taken)


@cache
def named_tests(file: str) -> frozenset[str]:
    """The names of the tests in a file."""
    nodes = ast.walk(parse((ROOT / file).read_text()))
    return frozenset(
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def _written(groups: Sequence[Group]) -> str:
    parts = []
    for title, test, cases in groups:
        file = Path(test.__code__.co_filename).relative_to(ROOT)
        parts.append(f"### {title}\n\n`{file}::{test.__name__}[rule]`\n")
        rows = "\n".join(f"| {rule} | {_cell(case.message)} |" for rule, case in cases.items())
        parts.append(f"| rule | message |\n|---|---|\n{rows}\n")
    return "\n".join(parts)


def _cell(text: str) -> str:
    """Text as it is, in a cell of a table; one that has backquotes itself is put between two of them."""
    quoted = f"`` {text} ``" if "`" in text else f"`{text}`"
    return quoted.replace("|", "\\|")


def _refusals(files: Iterable[Path]) -> Iterator[tuple[str, int]]:
    for file in files:
        for node in ast.walk(parse(file.read_text())):
            if isinstance(node, ast.Raise) and node.exc is not None and "from None" not in ast.unparse(node):
                yield file.name, node.lineno


def _lines_run_by(files: Iterable[Path], action: Callable[[], object]) -> set[tuple[str, int]]:
    """The lines of the files that an action runs."""
    names = {str(file): file.name for file in files}
    found: set[tuple[str, int]] = set()

    def trace(frame: FrameType, _event: str, _argument: object) -> Any:
        name = names.get(frame.f_code.co_filename)
        if name is None:
            return None
        found.add((name, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return found
