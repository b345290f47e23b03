"""What a page is: values that a feature makes of its objects, and that know nothing of HTML or HTTP."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from lanloom.api.resource import Resource
from lanloom.cli.query import Query
from lanloom.kube.ports import Reader
from lanloom.refusals import Refusal

READY, TROUBLE = "ready", "trouble"
"""The state of a cell. A cell that is not there has none."""


class NoSuchPage(Refusal):
    """There is nothing to show; the message says what there is."""


class Trouble(Struct, frozen=True):
    """Why something is not ready, and the remedy."""

    reason: str
    message: str


def _no_trouble(_thing: Any) -> Trouble | None:
    return None


class Table(Struct, frozen=True, kw_only=True):
    """A list of things by the fields of a command. `name` is what one of them is called, `href` where its page is."""

    title: str
    query: Query[Any]
    rows: Sequence[Any]
    name: Callable[[Any], str] = str
    href: Callable[[Any], str] | None = None
    trouble: Callable[[Any], Trouble | None] = _no_trouble


class Cell(Struct, frozen=True):
    """A network on a node: its state, and the words that say so."""

    state: str
    words: str


class Matrix(Struct, frozen=True, kw_only=True):
    """Things against nodes: `columns` are titles with paths, `cells` are by node and title."""

    title: str
    columns: Sequence[tuple[str, str]]
    cells: Mapping[str, Mapping[str, Cell]]


class Content(Struct, frozen=True, kw_only=True):
    """A page as it is now. `trouble` is of the thing that the page is about; `facts` are names with values."""

    title: str
    trouble: Trouble | None = None
    facts: Sequence[tuple[str, str]] = ()
    matrix: Matrix | None = None
    tables: Sequence[Table] = ()


Names = Mapping[str, str]
"""The names in a path, by placeholder."""

Read = Callable[[Reader, Names], Awaitable[Content]]


class Page(Struct, frozen=True, kw_only=True):
    """A page of a feature.

    `path` and `command` have placeholders such as `{name}`. `menu` is the word in the menu, empty for a page of one
    thing. `kinds` are what it is made of: a change of one of them makes it anew. `read` raises KubeError and Refusal.
    """

    path: str
    command: str
    kinds: tuple[Resource[Any], ...]
    read: Read
    menu: str = ""
