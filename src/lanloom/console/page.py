"""What a page is: values that a feature makes of its objects, and that know nothing of HTML or HTTP."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from lanloom.api.resource import Resource
from lanloom.cli.query import Query
from lanloom.kube.ports import Reader
from lanloom.refusals import Refusal

READY, NOT_READY, BUSY = "ready", "not-ready", "busy"
"""The state of a cell or a box. What is not there has none; what is under way is busy."""

MARKS = {READY: "●", NOT_READY: "◆", BUSY: "◐"}
"""The shape of each state."""


class NoSuchPage(Refusal):
    """There is nothing to show; the message says what there is."""


class Asked(Struct, frozen=True, kw_only=True):
    """What a reader asked for: the path, words to look for, one namespace, and whether also for what is well."""

    path: str
    words: str = ""
    namespace: str = ""
    everything: bool = False

    @property
    def filtered_by(self) -> str:
        """Return what a reader filters by; empty without a filter."""
        words = f"the words “{self.words}”" if self.words else ""
        namespace = f"the namespace “{self.namespace}”" if self.namespace else ""
        return " and ".join(filter(None, (words, namespace)))

    def href(self, *, everything: bool) -> str:
        """Return the address of the same page with or without what is well."""
        asked = {"q": self.words, "namespace": self.namespace, "show": "all" if everything else ""}
        query = urlencode({name: value for name, value in asked.items() if value})
        return f"{self.path}?{query}" if query else self.path


class NotReady(Struct, frozen=True):
    """Why something is not ready, and the remedy; since when, RFC 3339, if that is known.

    What is `under_way` becomes ready by itself.
    """

    reason: str
    message: str
    since: str = ""
    under_way: bool = False


def _always_ready(_thing: Any) -> NotReady | None:
    return None


class Table(Struct, frozen=True, kw_only=True):
    """A list of things by the fields of a command. `name` is what one of them is called, `href` where its page is.

    `selection` are the fields, None for the default ones. Of a table that is `searched`, only those are shown that have
    the reader's words, or are not ready. `first` is what a table without rows says: that there is none, and the first
    step to one, with commands in `backticks`. A table without rows and without a first step is left out.
    """

    title: str
    query: Query[Any]
    rows: Sequence[Any]
    selection: str | None = None
    searched: bool = False
    first: str = ""
    name: Callable[[Any], str] = str
    href: Callable[[Any], str] | None = None
    not_ready: Callable[[Any], NotReady | None] = _always_ready


class Cell(Struct, frozen=True):
    """A network on a node: its state, and the words that say so."""

    state: str
    words: str


class Matrix(Struct, frozen=True, kw_only=True):
    """Things against nodes: `columns` are titles with paths, `cells` are by node and title."""

    title: str
    columns: Sequence[tuple[str, str]]
    cells: Mapping[str, Mapping[str, Cell]]


class Box(Struct, frozen=True, kw_only=True):
    """A thing in a drawing: `key` is its own among all boxes, `state` as of a cell, `words` the whole story.

    `label` and `note` are its two lines, `href` its page.
    """

    key: str
    label: str
    note: str = ""
    words: str = ""
    state: str = ""
    href: str = ""


class Drawing(Struct, frozen=True, kw_only=True):
    """Boxes by layer, in the order of layers, and lines between the keys of boxes."""

    title: str
    layers: Sequence[tuple[str, Sequence[Box]]]
    lines: Sequence[tuple[str, str]] = ()


class Chain(Struct, frozen=True, kw_only=True):
    """Boxes one after the other, each with a title: a way. It breaks into lines where there is no room."""

    title: str
    boxes: Sequence[tuple[str, Box]]


class Square(Struct, frozen=True):
    """An address of a pool, or so many of them: the state is free, used or reserved; the words say who has them."""

    addresses: str
    state: str
    words: str
    count: int = 1


class PoolMap(Struct, frozen=True, kw_only=True):
    """All addresses of a pool, in order: each for itself, or as `ranges`."""

    title: str
    squares: Sequence[Square]
    ranges: bool = False


class Form(Struct, frozen=True, kw_only=True):
    """A text to paste, which the page says something of; `options` are names of check boxes with labels."""

    hint: str
    label: str
    button: str
    text: str = ""
    options: Sequence[tuple[str, str]] = ()
    chosen: frozenset[str] = frozenset()


class NodePart(Struct, frozen=True, kw_only=True):
    """What a feature has on a node: boxes by layer (`LAYERS`) with lines, and lists."""

    boxes: Mapping[str, Sequence[Box]] = {}
    lines: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()


LAYERS = ("NICs", "Bonds and links", "Bridges", "Networks", "Pods and machines")
"""The layers of a node, from the wire to its users."""


class Content(Struct, frozen=True, kw_only=True):
    """A page as it is now. `not_ready` is of the thing that the page is about; `facts` are names with values.

    `links` are words with the addresses of pages on what can be done with that thing. `parts` are titles with the
    addresses of pages that take longer: a browser puts them in when this one is there, and reads them again by and by.
    `blockers` are lists of what uses it or keeps it, which come last.
    """

    title: str
    not_ready: NotReady | None = None
    facts: Sequence[tuple[str, str]] = ()
    links: Sequence[tuple[str, str]] = ()
    matrix: Matrix | None = None
    drawing: Drawing | Chain | None = None
    maps: Sequence[PoolMap] = ()
    form: Form | None = None
    tables: Sequence[Table] = ()
    parts: Sequence[tuple[str, str]] = ()
    blockers: Sequence[Table] = ()
    remarks: Sequence[str] = ()


Names = Mapping[str, str]
"""The names in a path, by placeholder."""

Read = Callable[[Reader, Names], Awaitable[Content]]
Answer = Callable[[Reader, Names, Mapping[str, str]], Awaitable[Content]]
ReadNode = Callable[[Reader, str], Awaitable[NodePart]]


class Page(Struct, frozen=True, kw_only=True):
    """A page of a feature.

    `path` and `command` have placeholders such as `{name}`. `menu` is the word in the menu, empty for a page of one
    thing. `kinds` are what it is made of: a change of one of them renders it again; `wide` are kinds of which it shows
    those of all namespaces. `read` raises KubeError and Refusal. `about` is the kind of a page of one object, which
    also tells of its deletion. With `front`, the first page tells what is not ready there. `answer` makes the page of a
    form that was sent, by the names of its fields; it changes nothing, as `read` does not.
    """

    path: str
    command: str
    kinds: tuple[Resource[Any], ...]
    read: Read
    menu: str = ""
    front: bool = True
    answer: Answer | None = None
    about: Resource[Any] | None = None
    wide: tuple[Resource[Any], ...] = ()


class NodeView(Struct, frozen=True):
    """What a feature shows of one node, and the kinds that it is made of."""

    kinds: tuple[Resource[Any], ...]
    read: ReadNode
