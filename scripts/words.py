"""Private words in identifiers, where the field has a term, and docstrings that do not say what a function does.

Prints the identifiers of src, tests, bench and scripts that contain such a word, with the term; exit status 1 if there
are any. Tests may use the words of `PRODUCT_TERMS`, which are good English elsewhere. The docstring of a function of
`lanloom` begins with an imperative, and not with one of `OPENINGS`; that of a property names it.
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
    "befell": "happened",
    "makers": "controller owners",
    "carriers": "nodes of, plan executors",
    "joint": "uplink link",
    "joints": "uplink links",
}
"""Word → term, in identifiers of any folder."""

PRODUCT_TERMS = {
    "book": "allocation state",
    "surplus": "orphans",
    "world": "cluster reader",
    "told": "reported, last reported",
    "tell": "report",
    "say": "report",
    "see": "observe",
    "hear": "receive, read",
    "judge": "validate",
    "look": "list, get, check",
    "looks": "observations, lists",
    "news": "event",
    "noted": "recorded, in flight",
    "obstacles": "deletion blockers",
    "keepers": "deletion blockers",
    "reach": "API probe, webhook endpoint",
    "fine": "ready",
    "ran": "completed process",
    "talk": "exec session",
    "station": "host",
    "choice": "selection",
    "substance": "key",
    "pins": "static entries",
}
"""Word → term, in identifiers of src."""

NAMES = {
    "gone_already": "ignore_not_found",
    "look_up": "get_or_none",
    "is_leaving": "is_deleting",
    "face_of": "key",
    "substance_of": "key",
}
"""Identifier → term, in any folder."""

OPENINGS = re.compile(
    r"(All|Any|As|Both|By|Each|Every|Everything|First|For|How|Its|No|Nobody|Not|Nothing|Of|On|One|Only|Somebody"
    r"|Something|There|Two|When|Where|Whether|While|Whom|Whose|Why|With|Without)\b"
)
"""Words with which no imperative begins."""

WORKED_ON = ("src/lanloom/console", "src/lanloom/features/vlan", "src/lanloom/features/ipam/dhcp")
"""Folders whose docstrings are not in this style yet."""

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words_of(identifier: str) -> Iterator[str]:
    """Return the words of an identifier in snake_case or CamelCase, in lower case."""
    return (part.lower() for part in _PARTS.findall(identifier))


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the names that a module defines, with their lines: classes, functions, arguments, variables."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def term_of(name: str, path: Path) -> str:
    """Return the term to write instead of an identifier or a word in it; empty if it is good."""
    if name in NAMES:
        return f"write {NAMES[name]!r}"
    terms = TERMS | PRODUCT_TERMS if path.parts[0] == "src" else TERMS
    return next((f"write {terms[word]!r} for {word!r}" for word in words_of(name) if word in terms), "")


def openings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield functions whose docstrings begin with one of `OPENINGS`, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_property = any("property" in ast.unparse(each) for each in node.decorator_list)
            if not is_property and OPENINGS.match(ast.get_docstring(node) or ""):
                yield node.lineno, node.name


def main() -> int:
    """Print what is found. Return the exit status."""
    found = [
        f"{path}:{line}: {name}: begin the docstring with what the function does"
        for path in sorted(Path("src/lanloom").rglob("*.py"))
        if not str(path).startswith(WORKED_ON)
        for line, name in openings(ast.parse(path.read_text()))
    ] + [
        f"{path}:{line}: {name}: {term}"
        for folder in FOLDERS
        for path in sorted(Path(folder).rglob("*.py"))
        for line, name in identifiers(ast.parse(path.read_text()))
        if (term := term_of(name, path))
    ]
    print(*dict.fromkeys(found), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
