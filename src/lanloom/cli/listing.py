"""The list kit: each command that prints a list takes the same options and prints through the same table.

`-o` has one meaning: what to print. Its value is a format (`-o json`, as with kubectl) or a list of fields
(`-o name,+free`, as with Ganeti). No field is named like a format, so a value is never ambiguous, but for `name`: it is
kubectl's format in lists of its kind, and a field in those that are like Ganeti's. Both can be given: `-o name,pools -o
json`.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from lanloom.cli.cluster import refusals

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from lanloom.cli.query import Field, Query, Value

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("table", "json", "yaml")

LIST_FORMATS = (*FORMATS, "wide")

TEMPLATES = ("jsonpath", "custom-columns")
"""Formats that have a value: `-o jsonpath={.items[*].name}`."""

WORD = 18
"""Length of the longest word that a table keeps whole if there is room: an IPv4 CIDR, or a short IPv6 one."""


@dataclass(frozen=True)
class Listing:
    """The options of a list. `fields` are None if the user chose none.

    `template` is the value of a format of `TEMPLATES`; `sort_by` a field or a JSONPath.
    """

    query: "Query[Any]"
    fields: "tuple[Field[Any], ...] | None" = None
    headers: bool = True
    separator: str | None = None
    output: str = "table"
    template: str = ""
    sort_by: str = ""

    @property
    def is_for_people(self) -> bool:
        """Whether remarks below the table are welcome, rather than in the way of a program."""
        return self.output in ("table", "wide") and self.separator is None and self.headers

    def print(self, things: Iterable[Any], whole: Any = None) -> None:
        """Print a row for each thing. Programs get `whole` instead unless the user chose fields."""
        given, things = things, self._sorted(list(things))
        whole = things if whole is given else whole
        if self.output == "name":
            self._print_names(things)
        elif self.output in TEMPLATES:
            self._print_template(self._data(things, things if whole is not None else None))
        elif self.output in ("json", "yaml"):
            print_data(self._data(things, whole), self.output)
        else:
            self._print_rows(things)

    def _shown(self) -> "tuple[Field[Any], ...]":
        if self.fields is None and self.output == "wide":
            return self.query.fields
        return self.fields or self.query.choose()

    def _data(self, things: "Sequence[Any]", whole: Any) -> Any:
        """Return what programs get."""
        if self.fields is None and whole is not None:
            return whole
        return [{field.name: field.value(thing) for field in self._shown()} for thing in things]

    def _sorted(self, things: list[Any]) -> list[Any]:
        """Order the things by a field or a JSONPath; what has no value there comes first, as with kubectl."""
        if not self.sort_by:
            return things
        from msgspec import to_builtins

        from lanloom.cli.jsonpath import find

        field = next((item for item in self.query.fields if item.name == self.sort_by), None)

        def key(thing: Any) -> tuple[int, Any]:
            found = [field.value(thing)] if field else find(self.sort_by.strip("{}"), to_builtins(thing))
            value = found[0] if found else None
            if value is None:
                return 0, 0
            return (1, value) if isinstance(value, int | float) else (2, str(value))

        with refusals():
            return sorted(things, key=key)

    def _print_names(self, things: "Sequence[Any]") -> None:
        (field,) = self.query.named([self.query.identity])
        for thing in things:
            click.echo(f"{self.query.resource}/{str(field.value(thing)).rpartition('/')[2]}")

    def _print_template(self, data: Any) -> None:
        """Print by JSONPath over an object with `items`, or custom columns of each item."""
        from msgspec import to_builtins

        from lanloom.cli.jsonpath import cell, columns_of, render

        items = to_builtins(data)
        with refusals():
            if self.output == "jsonpath":
                click.echo(render(self.template, {"items": _lists(items)}), nl=False)
                return
            columns = columns_of(self.template)
            rows = [[cell(path, item) for _, path in columns] for item in _lists(items)]
        titles = [[title for title, _ in columns]] if self.headers else []
        widths = [max(map(len, column)) for column in zip(*titles, *rows, strict=True)]
        for row in (*titles, *rows):
            click.echo("   ".join(map(str.ljust, row, widths)).rstrip())

    def _print_rows(self, things: "Sequence[Any]") -> None:
        fields = self._shown()
        if self.separator is None:
            self._print_table(things)
        else:
            rows = ([_text(field, thing) for field in fields] for thing in things)
            for line in (*([[field.title for field in fields]] if self.headers else []), *rows):
                click.echo(self.separator.join(line))

    def _print_table(self, things: "Sequence[Any]") -> None:
        from lanloom.cli import console

        if not things and not self.headers:
            return
        target = console.console()
        fields, query = self._shown(), self.query
        wide = max(target.width, console.NARROWEST)
        narrow = bool(query.narrow) and fields == query.choose() and _width(fields, things) > wide
        shown = query.named(query.narrow) if narrow else fields
        table = make_table(
            shown, things, ruled=query.ruled, width=target.width, narrow=narrow, headers=self.headers
        )
        console.print_table(target, table)


def print_rows(target: "Console", query: "Query[Any]", things: Iterable[Any], *, edge: bool = True) -> None:
    """Print a table of the default fields; without `edge` it has no blank lines around it."""
    from lanloom.cli.console import print_table

    table = make_table(query.choose(), tuple(things), ruled=query.ruled, width=target.width)
    table.show_edge = edge
    print_table(target, table)


def make_table(
    fields: "Sequence[Field[Any]]",
    things: "Sequence[Any]",
    *,
    ruled: bool,
    width: int = 0,
    narrow: bool = False,
    headers: bool = True,
    title: str = "",
) -> "Table":
    """Build the table for a terminal of `width` columns. Words such as addresses stay whole if there is room."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from lanloom.cli.console import NARROWEST

    rows = [[_text(field, thing, narrow=narrow) for field in fields] for thing in things]
    least = _least_widths(
        [[field.title for field in fields], *rows], max(width, NARROWEST), 2 if ruled else 1
    )
    table = Table(
        box=SIMPLE_HEAD if ruled else None,
        padding=(0, 0 if narrow else 1, 0, 0),
        pad_edge=not ruled,
        header_style="bold",
        show_header=headers,
        title=title or None,
        title_justify="left",
    )
    for field, minimum in zip(fields, least, strict=True):
        table.add_column(
            Text(field.title),
            justify="right" if field.kind == "number" else "left",
            overflow="fold",
            no_wrap=field.whole or field.kind in ("number", "bool"),
            min_width=minimum,
        )
    for thing, row in zip(things, rows, strict=True):
        styles = [field.style(thing) if field.style is not None else "" for field in fields]
        table.add_row(*map(Text, row, styles))
    return table


def _text(field: "Field[Any]", thing: Any, *, narrow: bool = False) -> str:
    """Return the text of a field. A plain text may be untrusted; one with its own format is not."""
    from lanloom.cli.console import visible

    text = field.show(field.value(thing))
    text = visible(text) if field.text is None else text
    return text.replace(field.breaks, f"{field.breaks}\n") if narrow and field.breaks else text


def _width(fields: "Sequence[Field[Any]]", things: "Sequence[Any]") -> int:
    """Return the columns that a ruled table needs to show everything without folding."""
    return sum(
        max([len(field.title), *(len(_text(field, thing)) for thing in things)]) + 2 for field in fields
    )


def _least_widths(rows: list[list[str]], width: int, gap: int) -> list[int]:
    """Return the minimum width of each column that keeps its words whole; 0 for the last ones if that does not fit."""
    words = [
        max((len(word) for text in column for word in text.split()), default=0)
        for column in zip(*rows, strict=True)
    ]
    least = [min(longest, WORD) for longest in words]
    for index in reversed(range(len(least))):
        if sum(least) + len(least) * gap <= width:
            break
        least[index] = 0
    return least


def listing_options(load: "Callable[[], Query[Any]]", *, selectable: bool = True) -> Callable[[F], F]:
    """Add the options of a list; the command gets them as one argument `listing`.

    `load` imports the fields when they are needed. Without `selectable`, `-o` takes only a format.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def called(*words: Any, no_headers: bool, separator: str | None, **options: Any) -> Any:
            query, chosen = load(), options.pop("output")
            output, fields = chosen if selectable else (chosen, None)
            output, _, template = output.partition("=")
            has_titles = output in ("table", "wide", "custom-columns")
            if not has_titles and (separator is not None or no_headers):
                raise click.UsageError("--separator and --no-headers apply to a table only")
            sort_by = options.pop("sort_by", None) or ""
            listing = Listing(query, fields, not no_headers, separator, output, template, sort_by)
            return function(*words, listing=listing, **options)

        headers = click.option("--no-headers", is_flag=True, help="Omit the line with the titles.")
        text = click.option(
            "--separator", metavar="TEXT", help="Separate fields by TEXT instead of padding them."
        )
        option = _selection_option(load) if selectable else output_option
        ordered: Any = _order_option(load)(called) if selectable else called
        decorated: F = headers(text(option(ordered)))
        return decorated

    return decorate


def _selection_option(load: "Callable[[], Query[Any]]") -> Callable[[F], F]:
    def choose(
        _ctx: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
    ) -> "tuple[str, tuple[Field[Any], ...] | None]":
        known = _formats_of(load())
        formats = [text for text in given if text in known or text.partition("=")[0] in TEMPLATES]
        lists = [text for text in given if text not in formats]
        if len(lists) > 1:
            raise click.BadParameter("fields are given twice; give them once", param_hint="-o")
        if bare := next((text for text in formats if text in TEMPLATES), None):
            raise click.BadParameter(f"{bare} needs a template: -o {bare}=…", param_hint="-o")
        return formats[-1] if formats else FORMATS[0], _chosen(load(), lists[0]) if lists else None

    def complete(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _completions(load(), incomplete)

    return click.option(
        "-o",
        "--output",
        metavar="FORMAT|FIELDS",
        multiple=True,
        callback=choose,
        shell_complete=complete,
        help="Format (table, wide, json, yaml, jsonpath=TEMPLATE, custom-columns=TITLE:PATH,…), or the fields to show, "
        "separated by commas; a leading + adds them to the default ones. Can be given twice, once for each.",
    )


def _formats_of(query: "Query[Any]") -> tuple[str, ...]:
    return (*LIST_FORMATS, "name") if query.resource else LIST_FORMATS


def _order_option(load: "Callable[[], Query[Any]]") -> Callable[[F], F]:
    def check(_ctx: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
        if given and given[0] not in "{.[" and given not in load().names():
            raise click.BadParameter(
                f"{given!r} is not a field; fields are: {', '.join(sorted(load().names()))}",
                param_hint="--sort-by",
            )
        return given

    def complete(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in load().names() if name.startswith(incomplete)]

    return click.option(
        "--sort-by",
        metavar="FIELD|JSONPATH",
        callback=check,
        shell_complete=complete,
        help="Order by a field, or by a JSONPath such as {.name}.",
    )


def fields_arguments(function: F) -> F:
    """Add the argument and options of `list-fields`; the command gets the names as `fields`, and `listing`."""

    def load() -> "Query[Any]":
        from lanloom.cli.query import FIELDS

        return FIELDS

    named = click.argument("fields", nargs=-1, metavar="[FIELD]...")
    return named(listing_options(load, selectable=False)(function))


def print_fields(query: "Query[Any]", names: tuple[str, ...], listing: Listing) -> None:
    """Describe the fields of those names, or all. Ends the command for an unknown name."""
    with refusals():
        listing.print(query.choose(",".join(names)) if names else query.fields)


def output_option(function: F) -> F:
    """`-o/--output`: a format for people or for programs."""
    return _output_option(function, "-o")


def long_output_option(function: F) -> F:
    """`--output` alone, for changes: `gnt-instance add -o` names an operating system, which Lanloom rejects."""
    return _output_option(function)


def _output_option(function: F, *short: str) -> F:
    return click.option(
        *short,
        "--output",
        type=click.Choice(FORMATS),
        default=FORMATS[0],
        show_default=True,
        help="Format of the output.",
    )(function)


def print_data(data: Any, output: str) -> None:
    """Print Structs and plain values for programs, as `json` or `yaml`."""
    from msgspec import to_builtins

    plain = to_builtins(data)
    if output == "json":
        import json  # msgspec writes no numbers of more than 64 bits, and an IPv6 pool has more addresses

        click.echo(json.dumps(plain, indent=2, ensure_ascii=False))
    else:
        import yaml

        click.echo(
            yaml.dump(_lists(plain), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True), nl=False
        )


def _lists(value: "Value") -> Any:
    """Replace tuples, which YAML lacks, by lists; copy repeated objects, for which YAML writes anchors."""
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, list | tuple) else value


def _chosen(query: "Query[Any]", text: str) -> "tuple[Field[Any], ...]":
    from lanloom.refusals import Malformed

    try:
        return query.choose(text)
    except Malformed as error:
        raise click.BadParameter(
            f"{error}; formats are: {', '.join((*_formats_of(query), *TEMPLATES))}", param_hint="-o"
        ) from None


def _completions(query: "Query[Any]", incomplete: str) -> list[CompletionItem]:
    """Complete a format, or the last name of a list of fields."""
    start = len(incomplete) - len(incomplete.rpartition(",")[2].removeprefix("+"))
    before, last = incomplete[:start], incomplete[start:]
    formats = (*_formats_of(query), *(f"{name}=" for name in TEMPLATES))
    names = query.names() if before else dict.fromkeys((*query.names(), *formats, *query.selections))
    return [CompletionItem(before + name) for name in names if name.startswith(last)]
