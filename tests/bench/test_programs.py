"""Programs that benchmarks and tests hand to another Python as text."""

import ast
import importlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def programs(path: Path) -> Iterator[ast.Module]:
    """Yield the texts in a file that are programs which import from Lanloom."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "from lanloom" in node.value:
            with suppress(SyntaxError):
                yield ast.parse(node.value)


def found() -> Iterator[tuple[str, ast.Module]]:
    """Yield all such programs, with the names of their files; to parse every file takes seconds."""
    for folder in ("bench", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path != Path(__file__):
                yield from ((str(path.relative_to(ROOT)), program) for program in programs(path))


@pytest.mark.slow
def test_what_they_import_is_there(subtests: pytest.Subtests) -> None:
    """Each name that such a program imports from Lanloom exists: no type checker looks into it."""
    there = list(found())
    assert there
    for name, program in there:
        with subtests.test(name):
            for node in ast.walk(program):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lanloom"):
                    module = importlib.import_module(node.module or "")
                    assert all(
                        hasattr(module, each.name) or _is_module(node, each.name) for each in node.names
                    )


def _is_module(node: ast.ImportFrom, name: str) -> bool:
    with suppress(ImportError):
        return importlib.import_module(f"{node.module}.{name}") is not None
    return False
