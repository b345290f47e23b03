"""Query fields: what a list can show of a thing, chosen by name as Ganeti's `-o` does.

Each field has a value for programs, plain enough for JSON, and a text for people. What there is of networks is in
`fields`; other things have tables of their own.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from lanloom.ipam.rules.addresses import shown
from lanloom.ipam.rules.errors import Malformed

T = TypeVar("T")

Value = None | bool | int | str | Sequence["Value"] | dict[str, "Value"]
"""What JSON can say. None is a value that there is not."""

Kind = Literal["text", "number", "bool", "list", "timestamp"]
"""Numbers are aligned to the right; a timestamp is RFC 3339 text in UTC."""

MISSING = "-"
"""The text of None."""


class Field(Struct, Generic[T], frozen=True):
    """A field: its name for `-o`, the title of its column, what it says, and how it is read off a thing.

    `text` is how people see its value, where that is not the same for all fields of its kind.
    """

    name: str
    title: str
    kind: Kind
    description: str
    value: Callable[[T], Value]
    text: Callable[[Any], str] | None = None

    def show(self, value: Value) -> str:
        """The text of a value of this field."""
        return self.text(value) if self.text is not None and value is not None else text_of(value)


class Query(Struct, Generic[T], frozen=True):
    """The fields that there are of a kind of things, and those that are shown if nobody says which."""

    fields: tuple[Field[T], ...]
    default: tuple[str, ...]

    def names(self) -> tuple[str, ...]:
        """The names of all fields."""
        return tuple(field.name for field in self.fields)

    def choose(self, wanted: str | None = None) -> tuple[Field[T], ...]:
        """The fields that a list `a,b` names, those of `+a,b` after the default ones. Raises Malformed."""
        if wanted is None:
            return self._named(self.default)
        more = wanted.startswith("+")
        names = [name.strip() for name in wanted.removeprefix("+").split(",")]
        return self._named((*self.default, *names) if more else names)

    def _named(self, names: Sequence[str]) -> tuple[Field[T], ...]:
        known = {field.name: field for field in self.fields}
        if unknown := [name for name in names if name not in known]:
            told = ", ".join(shown(name) for name in dict.fromkeys(unknown))
            some = "is no field" if len(set(unknown)) == 1 else "are no fields"
            raise Malformed(f"{told} {some}; fields are: {', '.join(sorted(known))}")
        return tuple(known[name] for name in names)


def text_of(value: Value) -> str:
    """What people see of a value: `-` for none, Y and N, lists with commas."""
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
        Field("name", "Name", "text", "What -o calls it", lambda field: field.name),
        Field("type", "Type", "text", "The kind of its values", lambda field: field.kind),
        Field("title", "Title", "text", "The title of its column", lambda field: field.title),
        Field("description", "Description", "text", "What it says", lambda field: field.description),
    ),
    ("name", "type", "title", "description"),
)
"""The fields of fields: what `list-fields` prints."""
