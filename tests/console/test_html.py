"""Pages as HTML."""

import re
from html.parser import HTMLParser
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.cli.query import Field, Kind, Query
from lanloom.console import html
from lanloom.console.page import (
    NOT_READY,
    READY,
    Asked,
    Box,
    Cell,
    Content,
    Drawing,
    Form,
    Matrix,
    NotReady,
    Page,
    PoolMap,
    Square,
    Table,
)
from lanloom.console.tables import MOST_NODES, MOST_ROWS
from lanloom.kube.ports import Reader

NAMES = Query[str]((Field("name", "Name", "text", "Name", lambda thing: thing),), ("name",))


async def nothing(_client: Reader, _names: object) -> Content:
    """An empty page."""
    return Content(title="Things")


PLAIN = Asked(path="/things")
PAGE = Page(path="/things", command="lanloom things", kinds=(), read=nothing)


def made(content: Content, asked: Asked = PLAIN) -> str:
    """The HTML of a page."""
    return html.main(content, PAGE, None, "lanloom things", asked, "12:00:00")


def table(*things: str, bad: tuple[str, ...] = ()) -> Table:
    """Things, some of which are not ready."""
    return Table(
        title="Things",
        query=NAMES,
        rows=things,
        href=lambda thing: f"/things/{thing}",
        not_ready=lambda thing: NotReady("Broken", "mend it") if thing in bad else None,
    )


def shown(*tables: Table, words: str = "", everything: bool = False) -> str:
    """The page of these tables."""
    asked = Asked(path="/things", words=words, everything=everything)
    return made(Content(title="Things", tables=tables), asked)


@given(st.text(alphabet="<>&\"'ab\n\x00\x1b", min_size=1, max_size=20))
def test_no_text_becomes_markup(text: str) -> None:
    """The tags of a page are the same whatever its texts are."""
    plain, hostile = shown(table("ab"), words="ab"), shown(table(text), words="")
    assert hostile.count("<td") == plain.count("<td") and hostile.count("<a ") <= plain.count("<a ")
    content = Content(title=text, not_ready=NotReady(text, text), facts=((text, text),))
    page = made(content, Asked(path="/things", words=text))
    assert page.count("<p") == made(
        Content(title="a", not_ready=NotReady("a", "a"), facts=(("a", "a"),)),
        Asked(path="/things", words="a"),
    ).count("<p")


HATE = "'\"><img src=x onerror=alert(1)><script>alert(1)</script>]]><svg onload=alert(1)>"


class Tags(HTMLParser):
    """Collects the elements of a page with the names of their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """As the parser says."""
        self.found.append((tag, tuple(name for name, _ in attrs)))


def everything(text: str) -> Content:
    """A page with a text in each of its fields."""
    not_ready = NotReady(text, text, text)
    fields = tuple(Field(str(kind), text, kind, text, lambda thing: thing) for kind in get_args(Kind))
    box = Box(key=text, label=text, note=text, words=text, state=NOT_READY, href=f"/{text}")
    squares = [Square(text, "used", text), Square(text, "free", text, 99)]
    return Content(
        title=text,
        not_ready=not_ready,
        facts=((text, text),),
        matrix=Matrix(title=text, columns=((text, f"/{text}"),), cells={text: {text: Cell(NOT_READY, text)}}),
        drawing=Drawing(title=text, layers=((text, (box,)),), lines=((text, text),)),
        maps=[PoolMap(title=text, squares=squares, ranges=ranges) for ranges in (False, True)],
        form=Form(
            hint=text, label=text, button=text, text=text, options=((text, text),), chosen=frozenset({text})
        ),
        tables=(
            Table(
                title=text,
                query=Query(fields, tuple(field.name for field in fields)),
                rows=(text,),
                href=lambda thing: f"/{thing}",
                not_ready=lambda _: not_ready,
            ),
        ),
        remarks=(text,),
    )


def test_names_that_hate_us_in_every_field() -> None:
    """Whatever any field of a page is, its elements and their attributes are those of a page with plain texts."""
    plain, hostile = (
        Tags(made(everything(text), Asked(path="/things", words=text, namespace=text))).found
        for text in ("a" * len(HATE), HATE)
    )
    assert hostile == plain
    assert not {tag for tag, _ in hostile} & {"img", "script"}


def test_control_characters_are_not_passed_on() -> None:
    """A page has no control characters of names and messages."""
    content = Content(title="a\x1bb", not_ready=NotReady("a\x1bb", "a\x00b"), facts=(("a", "a\x1bb"),))
    page = made(content)
    assert page.isprintable()


def test_only_what_is_not_ready_is_shown_unless_asked() -> None:
    """Where something is not ready, that alone is listed, with the number of all and a link to them."""
    things = table("good", "bad", bad=("bad",))
    page = shown(things)
    assert ">bad<" in page and ">good<" not in page and "1 of 2 not ready" in page and "mend it" in page
    everything = shown(things, everything=True)
    assert everything.index(">bad<") < everything.index(">good<")
    assert ">good<" in shown(table("good"))


@pytest.mark.parametrize(
    ("bad", "everything", "said"),
    [
        (0, False, "The first 500 of 600; filter to see others."),
        (550, False, "550 of 600 not ready. "),
        (550, False, ". The first 500 of 550; filter to see others."),
        (550, True, ". The first 500 of 600; filter to see others."),
        (100, True, ". The first 500 of 600; filter to see others."),
        (100, False, "100 of 600 not ready. "),
    ],
)
def test_a_list_that_is_cut_says_so(bad: int, everything: bool, said: str) -> None:
    """A list with more rows than a page shows says how many it has, whatever it is a list of."""
    names = [f"thing-{number}" for number in range(600)]
    page = shown(table(*names, bad=tuple(names[:bad])), everything=everything)
    assert said in page
    assert ("The first" in page) == ("The first" in said or bad > MOST_ROWS)


def test_the_first_page_says_that_it_is_cut() -> None:
    """The first page names how many things are not ready, also where it does not list all of them."""
    for count, cut in ((MOST_ROWS, False), (MOST_ROWS + 1, True)):
        problem = html.Problem(
            kind="LANs", name="blue", href="/lans/ours/blue", not_ready=NotReady("Broken", "why")
        )
        page = html.front([problem] * count, count, [], Asked(path="/"), [], [], "12:00:00")
        assert f"{count} things are not ready" in page
        assert (f"The first {MOST_ROWS} of {count}; the pages of the menu show others." in page) == cut


def test_words_are_kept_and_can_be_cleared() -> None:
    """A filter finds rows that have all words, whatever their case, and its link to all keeps the words."""
    things = table("red house", "blue house", "bad house", bad=("bad house",))
    page = shown(things, words="HOUSE bad")
    assert ">bad house<" in page and "red" not in page.replace("rel", "") and ">Clear<" in page
    assert "q=HOUSE+bad" in page


def test_an_empty_list_names_the_first_step() -> None:
    """A list without rows says how to make one, with the command as code; without such a step it is left out."""
    empty = Table(title="Things", query=NAMES, rows=(), first="None exists. To begin: `lanloom thing add`.")
    assert "None exists. To begin: <code>lanloom thing add</code>." in shown(empty)
    assert "None exists" not in shown(replace(empty, rows=("a",)))
    assert "<h2>" not in shown(replace(empty, first=""))


def test_a_filter_that_leaves_nothing_says_so() -> None:
    """Where a filter leaves nothing, the list names the filter and has a link without it, and no first step."""
    things = replace(table("red"), first="None exists.")
    by_words = shown(things, words="blue")
    assert "nothing here has the words “blue”" in by_words.casefold()
    by_namespace = made(
        Content(title="Things", tables=(replace(things, rows=()),)), Asked(path="/things", namespace="a")
    )
    assert "nothing here has the namespace “a”" in by_namespace.casefold()
    for page in (by_words, by_namespace):
        assert '<a href="/things">Clear the filter</a>' in page and "None exists" not in page
    assert "None exists" in shown(replace(things, rows=()), words="blue")


def test_each_cell_has_the_name_of_its_column() -> None:
    """Each cell of a list and of a matrix has the name of its column, which a narrow page shows, and its role."""
    matrix = Matrix(
        title="Nodes", columns=(("a", "/a"), ("b", "/b")), cells={"n": {"a": Cell(READY, "fine")}}
    )
    page = made(Content(title="Things", matrix=matrix, tables=(table("good", "bad", bad=("bad",)),)))
    labels = re.findall(r'<td[^>]* role="cell" data-label="([^"]+)"', page)
    assert labels == ["a", "b", "Name"] and page.count("<td") == len(labels) + 1  # and the reason of a row


def test_a_matrix_shows_troubled_nodes_first() -> None:
    """Of many nodes those with something not ready come first, and it is said how many more there are."""
    well, bad = Cell(READY, "n: fine"), Cell(NOT_READY, "n: broken")
    cells = {f"node{number:03}": {"a": well} for number in range(MOST_NODES + 5)}
    cells["node104"] = {"a": bad}
    matrix = Matrix(title="Nodes", columns=(("a", "/a"), ("b", "/b")), cells=cells)
    page = made(Content(title="Things", matrix=matrix))
    assert page.index("node104") < page.index("node000") and "5 more nodes" in page
    assert 'title="n: broken"' in page
