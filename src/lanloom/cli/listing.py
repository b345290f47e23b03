"""The list kit: each command that prints a list takes the same options and prints through the same table.

`-o` has one meaning: what to print. Its value is a format (`-o json`, as with kubectl) or a list of fields
(`-o name,+free`, as with Ganeti). No field is named like a format, so a value is never ambiguous, but for `name`: it is
kubectl's format in lists of its kind, and a field in those that are like Ganeti's. Both can be given: `-o name,pools -o
json`.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem
from msgspec import Struct, structs

from lanloom.cli.cluster import options_of, refusals
from lanloom.cli.tables import cell, make_table, plain_table, width_of
from lanloom.cli.watching import Seen, watched
from lanloom.runtime.slimimports import uncollected

if TYPE_CHECKING:
    from lanloom.api.resource import Resource
    from lanloom.cli.query import Field, Query, Value

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("table", "json", "yaml")

LIST_FORMATS = (*FORMATS, "wide")

TEMPLATES = ("jsonpath", "custom-columns")
"""Formats that have a value: `-o jsonpath={.items[*].name}`."""


class Listing(Struct, frozen=True):
    """The options of a list. `fields` are None if the user chose none.

    `template` is the value of a format of `TEMPLATES`; `sort_by` a field or a JSONPath. A list that is watched prints
    what differs from what was `seen`.
    """

    query: "Query[Any]"
    fields: "tuple[Field[Any], ...] | None" = None
    headers: bool = True
    separator: str | None = None
    output: str = "table"
    template: str = ""
    sort_by: str = ""
    seen: Seen | None = None

    @property
    def is_for_people(self) -> bool:
        """Whether remarks below the table are welcome, rather than in the way of a program."""
        plain = self.output in ("table", "wide") and self.separator is None and self.headers
        return plain and self.seen is None

    def print(self, things: Iterable[Any], whole: Any = None) -> None:
        """Print a row for each thing. Programs get `whole` instead unless the user chose fields."""
        if self.seen is not None:
            self._print_fresh(self.seen, tuple(things), whole)
            return
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

    def _print_fresh(self, seen: Seen, things: "Sequence[Any]", whole: Any) -> None:
        """Print what was not printed like this before; the titles come once."""
        titles = self.headers and seen.is_first
        fresh = seen.fresh({self._form(thing, whole): thing for thing in things})
        if fresh:
            structs.replace(self, seen=None, headers=titles).print(fresh, None if whole is None else fresh)

    def _form(self, thing: Any, whole: Any) -> str:
        """Return what is printed of a thing, as a text: programs get more than the columns of a table."""
        if whole is not None and self.fields is None and self.output in (*TEMPLATES, "json", "yaml"):
            from msgspec import to_builtins

            return repr(to_builtins(thing))
        return "\0".join(cell(field, thing) for field in self._shown())

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

        from lanloom.cli.jsonpath import cell as value_at
        from lanloom.cli.jsonpath import columns_of, render

        items = to_builtins(data)
        with refusals():
            if self.output == "jsonpath":
                click.echo(render(self.template, {"items": _lists(items)}), nl=False)
                return
            columns = columns_of(self.template)
            rows = [[value_at(path, item) for _, path in columns] for item in _lists(items)]
        titles = [[title for title, _ in columns]] if self.headers else []
        widths = [max(map(len, column)) for column in zip(*titles, *rows, strict=True)]
        for row in (*titles, *rows):
            click.echo("   ".join(map(str.ljust, row, widths)).rstrip())

    def _print_rows(self, things: "Sequence[Any]") -> None:
        fields = self._shown()
        if self.separator is None:
            self._print_table(things)
        else:
            rows = ([cell(field, thing) for field in fields] for thing in things)
            for line in (*([[field.title for field in fields]] if self.headers else []), *rows):
                click.echo(self.separator.join(line))

    def _print_table(self, things: "Sequence[Any]") -> None:
        from lanloom.cli import console

        if not things and not self.headers:
            return
        fields, query = self._shown(), self.query
        wide = max(console.width(), console.NARROWEST)
        narrow = bool(query.narrow) and fields == query.choose() and width_of(fields, things) > wide
        shown = query.named(query.narrow) if narrow else fields
        if not narrow:
            text = plain_table(
                fields,
                things,
                ruled=query.ruled,
                headers=self.headers,
                width=wide,
                styled=console.is_styled(),
            )
            if text is not None:
                click.echo(text, nl=False)
                return
        target = console.console()
        table = make_table(
            shown, things, ruled=query.ruled, width=target.width, narrow=narrow, headers=self.headers
        )
        console.print_table(target, table)


def listing_options(
    load: "Callable[[], Query[Any]]",
    *,
    selectable: bool = True,
    kinds: "Callable[[], tuple[Resource[Any], ...]] | None" = None,
) -> Callable[[F], F]:
    """Add the options of a list; the command gets them as one argument `listing`.

    `load` imports the fields when they are needed. Without `selectable`, `-o` takes only a format. `kinds` imports the
    kinds whose changes a list with `-w` waits for; there is no `-w` without.
    """
    load = _importing(load)

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
            if options.pop("watch", False) and kinds is not None:
                listing = structs.replace(listing, seen=Seen())
                cluster = options_of(click.get_current_context())
                watched(cluster, kinds(), lambda: function(*words, listing=listing, **options))
            return function(*words, listing=listing, **options)

        headers = click.option("--no-headers", is_flag=True, help="Omit the line with the titles.")
        text = click.option(
            "--separator", metavar="TEXT", help="Separate fields by TEXT instead of padding them."
        )
        option = _selection_option(load) if selectable else output_option
        ordered: Any = _order_option(load)(called) if selectable else called
        if kinds is not None:
            ordered = click.option(
                "-w", "--watch", is_flag=True, help="Then print what changes, until it is interrupted."
            )(ordered)
        decorated: F = headers(text(option(ordered)))
        return decorated

    return decorate


def _importing(load: "Callable[[], Query[Any]]") -> "Callable[[], Query[Any]]":
    """Return the same fields, imported while Python looks for no garbage."""

    def imported() -> "Query[Any]":
        with uncollected():
            return load()

    return imported


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


def fields_arguments(described: "Callable[[], Query[Any]]") -> Callable[[F], F]:
    """Add the argument and options of `list-fields`; the command gets the names as `fields`, and `listing`."""

    def load() -> "Query[Any]":
        from lanloom.cli.query import FIELDS

        return FIELDS

    def complete(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in described().names() if name.startswith(incomplete)]

    named = click.argument("fields", nargs=-1, metavar="[FIELD]...", shell_complete=complete)
    return lambda function: named(listing_options(load, selectable=False)(function))


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
