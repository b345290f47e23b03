"""Query fields: the properties of a thing that a list can show, selected by name as with Ganeti's `-o`.

Each field has a value for programs, plain enough for JSON, and a text for people. This module imports no click: the
fields of networks are part of the rules.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from lanloom.refusals import Malformed
from lanloom.text import quote

T = TypeVar("T")

Value = None | bool | int | str | Sequence["Value"] | dict[str, "Value"]
"""A JSON value. None is a missing value."""

Kind = Literal["text", "number", "bool", "list", "timestamp"]
"""Numbers are aligned to the right; a timestamp is RFC 3339 text in UTC."""

MISSING = "-"
"""The text of None."""


class Field(Struct, Generic[T], frozen=True):
    """A field: its name for `-o`, the title and description of its column, and how to get its value from a thing.

    `text` formats the value for people if it differs from the other fields of its kind; `style` is a rich style. A
    `whole` text is short and copied, so a table does not fold it. A narrow table breaks a text after `breaks`.
    """

    name: str
    title: str
    kind: Kind
    description: str
    value: Callable[[T], Value]
    text: Callable[[Any], str] | None = None
    style: Callable[[T], str] | None = None
    whole: bool = False
    breaks: str = ""

    def show(self, value: Value) -> str:
        """Return the text of a value of this field."""
        return self.text(value) if self.text is not None and value is not None else text_of(value)


class Query(Struct, Generic[T], frozen=True):
    """All fields of a kind of things, and the names of the default ones.

    `narrow` are the default ones where the others do not fit the terminal. A `ruled` table has a line under its titles.
    `resource` is the singular and the group of the kind, for lists like kubectl's: `-o name` is no field there.
    `identity` is the field with the name. `selections` are lists of fields that have a name of their own.
    """

    fields: tuple[Field[T], ...]
    default: tuple[str, ...]
    narrow: tuple[str, ...] = ()
    ruled: bool = False
    resource: str = ""
    identity: str = "name"
    selections: dict[str, tuple[str, ...]] = {}

    def names(self) -> tuple[str, ...]:
        """Return the names of all fields."""
        return tuple(field.name for field in self.fields)

    def choose(self, wanted: str | None = None) -> tuple[Field[T], ...]:
        """Return the fields that a list `a,b` names; `+a,b` adds them to the default ones. Raises Malformed."""
        if wanted is None:
            return self.named(self.default)
        if wanted in self.selections:
            return self.named(self.selections[wanted])
        more = wanted.startswith("+")
        names = [name.strip() for name in wanted.removeprefix("+").split(",")]
        return self.named((*self.default, *names) if more else names)

    def named(self, names: Sequence[str]) -> tuple[Field[T], ...]:
        """Return the fields of those names. Raises Malformed."""
        known = {field.name: field for field in self.fields}
        if unknown := [name for name in names if name not in known]:
            quoted = ", ".join(quote(name) for name in dict.fromkeys(unknown))
            some = "is not a field" if len(set(unknown)) == 1 else "are not fields"
            raise Malformed(f"{quoted} {some}; fields are: {', '.join(sorted(known))}")
        return tuple(known[name] for name in names)


def text_of(value: Value) -> str:
    """Return a value's text: `-` for none, Y and N, lists with commas."""
    match value:
        case None:
            return MISSING
        case bool():
            return "Y" if value else "N"
        case int() | str():
            return str(value)
        case dict():
            return " ".join(f"{key}={text_of(item)}" for key, item in value.items())
    return ",".join(map(text_of, value))


FIELDS: Query[Field[Any]] = Query(
    (
        Field("name", "Name", "text", "Name for -o", lambda field: field.name),
        Field("type", "Type", "text", "Type of its values", lambda field: field.kind),
        Field("title", "Title", "text", "Title of its column", lambda field: field.title),
        Field("description", "Description", "text", "Description", lambda field: field.description),
    ),
    ("name", "type", "title", "description"),
)
"""The fields of fields: what `list-fields` prints."""
