"""Lists as Ganeti's users know them, and their forms for programs."""

import io
import json
import re
from collections.abc import Callable
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs

from lanloom.cli.console import UNFOLDED, console, print_table
from lanloom.cli.listing import FORMATS, listing_options
from lanloom.cli.query import Field, Kind, Query
from lanloom.cli.tables import make_table, plain_table
from lanloom.cli.watching import Seen
from lanloom.features.dummy.views import NETWORK_FIELDS as DUMMY_FIELDS
from lanloom.features.ipam.cli.grammar.fields import NETWORK_FIELDS
from lanloom.features.ipam.commands.instanceviews import INSTANCE_FIELDS
from lanloom.features.vlan.views.overview import ROW_FIELDS
from lanloom.features.vlan.views.view import NETWORK_FIELDS as VLAN_FIELDS
from lanloom_lab.cli import NODE_FIELDS as LAB_FIELDS
from tests.harness.examples import examples


class Thing(Struct, frozen=True):
    name: str
    count: int = 0
    tags: tuple[str, ...] = ()
    well: bool = True
    gateway: str | None = None


TEXTS = st.text(st.characters(max_codepoint=0x2FF, exclude_categories=["Cs"]), max_size=12) | st.text(
    st.sampled_from("ab 1-"), max_size=12
)
"""Cells of all sorts: spaces at the ends, control characters, letters of any width."""


class Terminal(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def _seen(text: str) -> list[str]:
    """What a terminal shows: lines without bold letters and blanks at their ends."""
    return [line.rstrip(" ") for line in re.sub(r"\x1b\[[0-9;]*m", "", text).split("\n")]


@settings(max_examples=examples(300))
@given(
    rows=st.lists(st.lists(TEXTS, min_size=3, max_size=3), max_size=4),
    ruled=st.booleans(),
    headers=st.booleans(),
)
def test_a_plain_table_is_the_same_without_rich(rows: list[list[str]], ruled: bool, headers: bool) -> None:
    """The table that is made without rich is the one that rich makes for a pipe and for a terminal, or none."""
    kinds: tuple[Kind, ...] = ("text", "number", "list")

    def value(at: int) -> Callable[[list[str]], str]:
        return lambda row: row[at]

    fields = [
        Field(name=kind, title=kind.title(), kind=kind, description="", value=value(at))
        for at, kind in enumerate(kinds)
    ]
    plain = plain_table(fields, rows, ruled=ruled, headers=headers)
    styled = plain_table(fields, rows, ruled=ruled, headers=headers, width=80, styled=True)
    file, terminal = io.StringIO(), Terminal()
    for target, width in ((console(file), UNFOLDED), (console(terminal), 80)):
        target.width = width
        print_table(target, make_table(fields, rows, ruled=ruled, width=target.width, headers=headers))
    assert plain in (None, file.getvalue())
    assert styled is None or _seen(styled) == _seen(terminal.getvalue())
    assert (plain is None) == (styled is None)
    if all(text.strip().isascii() and text == text.strip() for row in rows for text in row):
        assert plain is not None


@settings(max_examples=examples(100))
@given(
    rows=st.lists(st.lists(st.text("ab ", max_size=70).map(str.strip), min_size=2, max_size=2), max_size=3)
)
def test_a_table_that_does_not_fit_is_left_to_rich(rows: list[list[str]]) -> None:
    """Without rich there is no folding: a table is the same at its width, and none where it is wider."""

    def value(at: int) -> Callable[[list[str]], str]:
        return lambda row: row[at]

    fields = [Field(str(at), str(at), "text", "", value(at)) for at in range(2)]
    plain = plain_table(fields, rows, ruled=False, headers=True, width=80, styled=True)
    terminal = Terminal()
    target = console(terminal)
    target.width = 80
    print_table(target, make_table(fields, rows, ruled=False, width=80))
    least = sum(max([1, *(len(row[at]) for row in rows)]) + 1 for at in range(2))
    assert (plain is None) == (least > 80)
    assert plain is None or _seen(plain) == _seen(terminal.getvalue())


def test_a_table_with_colors_is_left_to_rich() -> None:
    """A terminal gets the colors of a table; a pipe gets the table as it is."""
    red = Field[str]("name", "Name", "text", "", lambda row: row, style=lambda row: row and "red")
    for rows, colors in ((["a"], True), ([""], False)):
        assert (plain_table([red], rows, ruled=False, headers=True, styled=True) is None) is colors
        assert plain_table([red], rows, ruled=False, headers=True) is not None


THINGS: Query[Thing] = Query(
    (
        Field(name="name", title="Name", kind="text", description="Its name", value=lambda item: item.name),
        Field(
            name="count", title="Count", kind="number", description="How many", value=lambda item: item.count
        ),
        Field(name="tags", title="Tags", kind="list", description="Tags", value=lambda item: item.tags),
        Field(name="well", title="Well", kind="bool", description="Is it", value=lambda item: item.well),
        Field(
            name="gateway", title="Gateway", kind="text", description="Way", value=lambda item: item.gateway
        ),
        Field(
            name="loud",
            title="Loud",
            kind="text",
            description="Name, loudly",
            value=lambda item: item.name,
            text=str.upper,
        ),
    ),
    ("name", "count"),
)
ROWS = (Thing("one", 7, ("a", "b")), Thing("another", 12, well=False, gateway="192.0.2.1"))


@click.command()
@listing_options(lambda: THINGS)
def show(listing: Any) -> None:
    """Lists."""
    listing.print(ROWS)


def run(*words: str, columns: int = 200) -> Result:
    """List the two rows."""
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(show, words)


def test_default_fields_in_a_table_with_titles_and_numbers_to_the_right() -> None:
    """Without options there is a line of titles, columns are padded, and numbers end in one column."""
    assert run().output.splitlines() == ["Name    Count", "one         7", "another    12"]


@pytest.mark.parametrize(
    ("words", "fresh"),
    [
        ((), False),
        (("-o", "name"), False),
        (("-o", "json"), True),
        (("-o", "yaml"), True),
        (("-o", "jsonpath={.items[*]}"), True),
        (("-o", "custom-columns=G:.gateway"), True),
        (("-o", "name,gateway"), True),
        (("-o", "name,count", "-o", "json"), False),
    ],
)
def test_a_change_that_a_watched_list_prints(words: tuple[str, ...], fresh: bool) -> None:
    """A row is printed again if anything changed of what is printed of it, which for programs is all of it."""

    @click.command()
    @listing_options(lambda: THINGS)
    def watch(listing: Any) -> None:
        seen = structs.replace(listing, seen=Seen())
        for gateway in (None, "192.0.2.1", "192.0.2.1"):
            rows = (Thing("one", 7, gateway=gateway),)
            seen.print(rows, whole=rows)
            click.echo("#")

    first, second, third, _ = CliRunner().invoke(watch, words).output.split("#\n")
    assert first
    assert (second != "", third) == (fresh, "")


def test_chosen_fields() -> None:
    """`-o` shows the fields that it names in its order; with + they follow the default ones."""
    assert run("-o", "count,name", "--no-headers").output.split() == ["7", "one", "12", "another"]
    assert run("-o", "+well", "--separator", ":").output.splitlines()[0] == "Name:Count:Well"


def test_missing_values_lists_and_truth_as_ganeti_shows_them() -> None:
    """None is -, a list has commas, truth is Y or N, and an empty list is empty."""
    done = run("-o", "name,tags,well,gateway,loud", "--no-headers", "--separator", "|")
    assert done.output.splitlines() == ["one|a,b|Y|-|ONE", "another||N|192.0.2.1|ANOTHER"]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_forms_for_programs_hold_plain_values(output: str) -> None:
    """JSON and YAML hold each field by its name, with numbers, lists and null as such."""
    done = run("-o", "name,count,tags,well,gateway,loud", "--output", output)
    data = json.loads(done.output) if output == "json" else yaml.safe_load(done.output)
    assert data[0] == {
        "name": "one",
        "count": 7,
        "tags": ["a", "b"],
        "well": True,
        "gateway": None,
        "loud": "one",
    }


@pytest.mark.parametrize("wanted", ["nonsense", "", "name,", "+", "name,nonsense", "Name"])
def test_unknown_fields_exit_with_2_and_name_the_known_ones(wanted: str) -> None:
    """What is no field is wrong usage, whose message lists the fields."""
    done = run("-o", wanted)
    assert done.exit_code == 2
    assert "fields are: count, gateway, loud, name, tags, well" in done.output


def test_fields_that_are_given_twice() -> None:
    """A second list of fields is wrong usage, and not silently the only one."""
    assert run("-o", "name", "-o", "count").exit_code == 2


def test_one_option_takes_a_format_or_fields() -> None:
    """`-o json` is a format, `-o name` a list of fields, and both can be given in any order and by either name."""
    assert json.loads(run("-o", "json").output)[0] == {"name": "one", "count": 7}
    both = [
        run(*words).output
        for words in (("-o", "name", "-o", "json"), ("--output", "json", "--output", "name"))
    ]
    assert [json.loads(text)[1] for text in both] == [{"name": "another"}] * 2


@pytest.mark.parametrize("words", [("--separator", ":"), ("--no-headers",)])
def test_options_of_the_table_and_other_formats_exclude_each_other(words: tuple[str, ...]) -> None:
    """A separator of JSON is wrong usage."""
    assert run("--output", "json", *words).exit_code == 2


def test_tables_fold_and_separated_lines_do_not() -> None:
    """A table fits 80 columns; with a separator a row is one line however long."""
    long = Thing("n" * 150)

    @click.command()
    @listing_options(lambda: THINGS)
    def one(listing: Any) -> None:
        listing.print([long])

    runner = CliRunner(env={"COLUMNS": "80"})
    assert max(map(len, runner.invoke(one, []).output.splitlines())) <= 80
    assert runner.invoke(one, ["--separator", " "]).output.splitlines()[1] == f"{'n' * 150} 0"


def test_addresses_are_not_broken_while_there_is_room() -> None:
    """Where one column is long, the others keep their words whole."""
    thing = Thing("n" * 300, gateway="192.0.2.0/24, 2001:db8::/64, 198.51.100.0/24")

    @click.command()
    @listing_options(lambda: THINGS)
    def one(listing: Any) -> None:
        listing.print([thing])

    words = CliRunner(env={"COLUMNS": "80"}).invoke(one, ["-o", "name,gateway,count"]).output.split()
    assert {"192.0.2.0/24,", "2001:db8::/64,", "198.51.100.0/24", "Count"} <= set(words)


def test_shells_complete_the_last_field() -> None:
    """Completion keeps what was written before the last comma."""
    option = next(item for item in show.params if item.name == "output")
    found = option.shell_complete(click.Context(show), "+name,co")
    assert [item.value for item in found] == ["+name,count"]


@pytest.mark.parametrize(
    "query",
    [NETWORK_FIELDS, INSTANCE_FIELDS, VLAN_FIELDS, DUMMY_FIELDS, ROW_FIELDS, LAB_FIELDS],
    ids=["network", "instance", "vlan", "dummy", "status", "lab"],
)
def test_no_field_is_named_like_a_format(query: Query[Any]) -> None:
    """`-o json` can't be a field, and the default fields exist."""
    assert not {*FORMATS} & {*query.names()}
    assert [field.name for field in query.choose()] == list(query.default)
    assert len(query.named(query.narrow)) == len(query.narrow)
