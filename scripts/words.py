"""Private words in identifiers, where the field has a term.

Prints the identifiers of src, tests, bench and scripts that contain such a word, with the term; exit status 1 if there
are any.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("src", "tests", "bench", "scripts")

TERMS = {
    "reign": "allocator term",
    "tenure": "pod worker",
    "homeless": "orphan, unresolved",
    "leftovers": "orphans",
    "superfluous": "orphans",
    "surroundings": "context",
    "keeper": "reconciler",
    "sweeper": "garbage collector",
    "insistence": "plan options",
    "outlook": "preview",
    "innocence": "checkpoint",
    "weather": "health",
    "outbox": "status publisher",
    "capsule": "namespace sandbox",
    "wishes": "options",
    "shelf": "resource table",
    "flavour": "schema version",
    "bury": "reap",
    "befall": "happen",
    "befallen": "happened",
    "rivals": "conflicts",
    "sight": "host snapshot",
    "judgement": "assessment, verdict",
    "rivalry": "conflict",
    "announcement": "event",
    "worlds": "cluster readers",
}
"""Word → term."""

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words_of(identifier: str) -> Iterator[str]:
    """The words of an identifier in snake_case or CamelCase, in lower case."""
    return (part.lower() for part in _PARTS.findall(identifier))


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The names that a module defines, with their lines: classes, functions, arguments, variables."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def main() -> int:
    """Prints what is found. Returns the exit status."""
    found = [
        f"{path}:{line}: {name}: write {TERMS[word]!r} for {word!r}"
        for folder in FOLDERS
        for path in sorted(Path(folder).rglob("*.py"))
        for line, name in identifiers(ast.parse(path.read_text()))
        for word in words_of(name)
        if word in TERMS
    ]
    print(*dict.fromkeys(found), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
