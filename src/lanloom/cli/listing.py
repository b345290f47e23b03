"""Lists as Ganeti's users know them: `-o FIELDS`, `--no-headers`, `--separator`, and forms for programs.

Here `-o` names fields, as in Ganeti; the format has only the long name `--output`.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from lanloom.cli.once import only_value
from lanloom.cli.refusals import refusals

if TYPE_CHECKING:
    from lanloom.ipam.rules.query import Field, Query, Value

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("table", "json", "yaml")

WORD = 18
"""Characters of a word that a table does not break if it can: an IPv4 CIDR, or a short IPv6 one."""


@dataclass(frozen=True)
class Listing:
    """How a list is to be printed. Each row shows `fields` of a thing."""

    fields: "tuple[Field[Any], ...]"
    headers: bool = True
    separator: str | None = None
    output: str = "table"

    def print(self, things: Iterable[Any]) -> None:
        """Prints a row for each thing."""
        rows = [[field.value(thing) for field in self.fields] for thing in things]
        if self.output != "table":
            names = [field.name for field in self.fields]
            print_data([dict(zip(names, row, strict=True)) for row in rows], self.output)
            return
        texts = [[field.show(value) for field, value in zip(self.fields, row, strict=True)] for row in rows]
        if self.separator is None:
            self._print_table(texts)
        else:
            head = [[field.title for field in self.fields]] if self.headers else []
            for line in (*head, *texts):
                click.echo(self.separator.join(line))

    def _print_table(self, rows: list[list[str]]) -> None:
        from rich.table import Table
        from rich.text import Text

        from lanloom.cli import console

        target = console.console()
        least = _least_widths(
            [[field.title for field in self.fields], *rows], max(target.width, console.NARROWEST)
        )
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", show_header=self.headers)
        for field, width in zip(self.fields, least, strict=True):
            table.add_column(
                Text(field.title),
                justify="right" if field.kind == "number" else "left",
                overflow="fold",
                no_wrap=field.kind in ("number", "bool"),
                min_width=width,
            )
        for row in rows:
            table.add_row(*map(Text, row))
        if rows or self.headers:
            console.print_table(target, table)


def _least_widths(rows: list[list[str]], width: int) -> list[int]:
    """What each column gets at least, so that words such as addresses stay whole, if that fits."""
    words = [
        max((len(word) for text in column for word in text.split()), default=0)
        for column in zip(*rows, strict=True)
    ]
    least = [min(longest, WORD) for longest in words]
    return least if sum(least) + len(least) <= width else [0] * len(least)


def listing_options(load: "Callable[[], Query[Any]]", *, choice: bool = True) -> Callable[[F], F]:
    """The options of a list; the command gets them as one argument `listing`.

    `load` imports the fields when they are needed. Without `choice` all of them are shown and `-o` is not offered.
    """

    def choose(
        ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]
    ) -> "tuple[Field[Any], ...]":
        return _chosen(load(), only_value(ctx, parameter, given))

    def complete(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _completions(load(), incomplete)

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def called(*words: Any, **options: Any) -> Any:
            listing = Listing(
                options.pop("fields") if choice else load().choose(),
                headers=not options.pop("no_headers"),
                separator=options.pop("separator"),
                output=options.pop("output"),
            )
            if listing.output != "table" and (listing.separator is not None or not listing.headers):
                raise click.UsageError("--separator and --no-headers go with a table only, not with --output")
            return function(*words, listing=listing, **options)

        option = click.option(
            "-o",
            "fields",
            metavar="FIELDS",
            multiple=True,
            callback=choose,
            shell_complete=complete,
            help="What to show: names of fields with commas; with + in front, after the default ones.",
        )
        return _format_options(option(called) if choice else called)  # type: ignore[return-value]

    return decorate


def fields_arguments(function: F) -> F:
    """The argument and options of `list-fields`; the command gets the names as `fields`, and `listing`."""

    def load() -> "Query[Any]":
        from lanloom.ipam.rules.query import FIELDS

        return FIELDS

    named = click.argument("fields", nargs=-1, metavar="[FIELD]...")
    return named(listing_options(load, choice=False)(function))


def print_fields(query: "Query[Any]", names: tuple[str, ...], listing: Listing) -> None:
    """Prints what there is to say of the fields of those names, or of all. Ends the command for an unknown one."""
    with refusals():
        listing.print(query.choose(",".join(names)) if names else query.fields)


def output_option(function: F) -> F:
    """`--output`: for people or for programs, where `-o` means something else."""
    return click.option(
        "--output", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True, help="Format."
    )(function)


def print_data(data: Any, output: str) -> None:
    """Prints plain values for programs, as `json` or `yaml`."""
    if output == "json":
        import json  # msgspec writes no numbers of more than 64 bits, and an IPv6 pool has more addresses

        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        import yaml

        click.echo(
            yaml.dump(_plain(data), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True), nl=False
        )


def _plain(value: "Value") -> Any:
    """The same with lists for tuples, which YAML does not know, and no object twice, for which it writes anchors."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _format_options(function: F) -> F:
    headers = click.option("--no-headers", is_flag=True, help="Leave out the line of titles.")
    separator = click.option(
        "--separator", metavar="TEXT", help="What to write between fields, instead of padding them."
    )
    return headers(separator(output_option(function)))


def _chosen(query: "Query[Any]", text: str | None) -> "tuple[Field[Any], ...]":
    from lanloom.ipam.rules.errors import Malformed

    try:
        return query.choose(text)
    except Malformed as error:
        hint = f"; for the format, write --output {text}" if text in FORMATS else ""
        raise click.BadParameter(f"{error}{hint}", param_hint="-o") from None


def _completions(query: "Query[Any]", incomplete: str) -> list[CompletionItem]:
    """Completes the last name of a list."""
    start = len(incomplete) - len(incomplete.rpartition(",")[2].removeprefix("+"))
    before, last = incomplete[:start], incomplete[start:]
    return [CompletionItem(before + name) for name in query.names() if name.startswith(last)]
