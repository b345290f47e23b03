"""Private words where the field has a term, and docstrings that do not say what a function does.

Prints what it finds, with the term; exit status 1 if there is anything.

- Identifiers of src, tests, bench and scripts contain no word of `TERMS`. Tests may use those of `PRODUCT_TERMS`, which
  are good English elsewhere.
- Public classes and modules of src are named by words of `nouns.txt`, in singular or plural. A new word is a new line
  there, so that a reviewer sees it: a term of networking, Kubernetes or Python, not one of our own.
- Comments, docstrings and messages of src name who acts, and not `IDIOM`; comments and docstrings of the other folders,
  too. What is in backquotes is quoted.
- The docstring of a function of `lanloom` begins with an imperative, and not with one of `OPENINGS`; that of a property
  names it.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
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

IDIOM = {
    "nobody": "no user, no controller; or the passive voice",
    "anybody": "any user, any tenant",
    "everybody": "all users, all clients",
    "somebody": "a user, another controller, another program",
    "whoever": "the user who, a process that; or the passive voice",
    "whom": "which user, which object",
    "anew": "again",
    "beside": "next to, alongside, in addition to",
    "for ever": "endlessly; or never with the opposite",
} | {f"{verb} told": "reported to, informed, known" for verb in ("is", "are", "was", "were", "be", "been")}
"""Word → what to write, in comments and docstrings, and in messages of src."""

_IDIOM = re.compile(rf"\b({'|'.join(IDIOM)})\b".replace(" ", r"\s+"), re.IGNORECASE)
_QUOTED = re.compile(r"`[^`]*`")

LISTED = Path(__file__).with_name("nouns.txt").read_text().split()
NOUNS = frozenset(LISTED)
"""Words of public classes and modules of src."""

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


@cache
def is_noun(word: str) -> bool:
    """Return whether a word, or its singular, is in `nouns.txt`."""
    forms = (word, word.removesuffix("s"), word.removesuffix("es"), re.sub("ies$", "y", word))
    return word.isdigit() or any(form in NOUNS for form in forms)


@cache
def is_compound(word: str) -> bool:
    """Return whether a word is one of `nouns.txt`, or several of them written as one."""
    return is_noun(word) or any(
        is_noun(word[:end]) and is_compound(word[end:]) for end in range(2, len(word) - 1)
    )


def unknown_nouns(path: Path, tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Yield the names of public classes, and of the module, with words that are not in `nouns.txt`."""
    for part in (each for each in path.with_suffix("").parts[1:] if not each.startswith("__")):
        for word in words_of(part):
            if not is_compound(word):
                yield 1, part, word
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for word in words_of(node.name):
                if not is_noun(word):
                    yield node.lineno, node.name, word


def prose(text: str, tree: ast.AST, *, messages: bool) -> Iterator[tuple[int, str]]:
    """Yield comments, docstrings and perhaps messages, with their lines. A string without a space is a value."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(said), lineno=line) if messages and " " in said:
                yield line, said
            case ast.Expr(value=ast.Constant(value=str(said), lineno=line)) if not messages:
                yield line, said


def idioms(text: str, tree: ast.AST, *, messages: bool) -> Iterator[tuple[int, str, str]]:
    """Yield the idioms in a module's prose, with what to write instead."""
    if _IDIOM.search(text):
        for line, said in prose(text, tree, messages=messages):
            unquoted = _QUOTED.sub("", said)
            for found in _IDIOM.finditer(unquoted):
                word = " ".join(found[0].lower().split())
                yield line + unquoted[: found.start()].count("\n"), word, IDIOM[word]


def openings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield functions whose docstrings begin with one of `OPENINGS`, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_property = any("property" in ast.unparse(each) for each in node.decorator_list)
            if not is_property and OPENINGS.match(ast.get_docstring(node) or ""):
                yield node.lineno, node.name


def findings(path: Path) -> Iterator[str]:
    """Yield what is wrong in a module."""
    text = path.read_text()
    tree = ast.parse(text)
    if path.parts[0] == "src":
        for line, name, word in unknown_nouns(path, tree):
            yield f"{path}:{line}: {name}: {word!r} is not in scripts/nouns.txt; use a term of the field, or add it"
    for line, word, term in idioms(text, tree, messages=path.parts[0] == "src"):
        yield f"{path}:{line}: instead of {word!r}, write: {term}"
    if path.is_relative_to("src/lanloom"):
        for line, name in openings(tree):
            yield f"{path}:{line}: {name}: begin the docstring with what the function does"
    for line, name in identifiers(tree):
        if term := term_of(name, path):
            yield f"{path}:{line}: {name}: {term}"


def main() -> int:
    """Print what is found. Return the exit status."""
    paths = (path for folder in FOLDERS for path in sorted(Path(folder).rglob("*.py")))
    found = [each for path in paths for each in findings(path)]
    if sorted(NOUNS) != LISTED:
        found.append("scripts/nouns.txt: sort the words, each once")
    print(*dict.fromkeys(found), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
