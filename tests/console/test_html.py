"""Pages as HTML."""

from hypothesis import given
from hypothesis import strategies as st

from lanloom.cli.query import Field, Query
from lanloom.console import html
from lanloom.console.page import READY, TROUBLE, Asked, Cell, Content, Matrix, Page, Table, Trouble
from lanloom.console.tables import MOST_NODES
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
        trouble=lambda thing: Trouble("Broken", "mend it") if thing in bad else None,
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
    content = Content(title=text, trouble=Trouble(text, text), facts=((text, text),))
    page = made(content, Asked(path="/things", words=text))
    assert page.count("<p") == made(
        Content(title="a", trouble=Trouble("a", "a"), facts=(("a", "a"),)), Asked(path="/things", words="a")
    ).count("<p")


def test_control_characters_are_not_passed_on() -> None:
    """A page has no control characters of names and messages."""
    content = Content(title="a\x1bb", trouble=Trouble("a\x1bb", "a\x00b"), facts=(("a", "a\x1bb"),))
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


def test_words_are_kept_and_can_be_cleared() -> None:
    """A filter finds rows that have all words, whatever their case, and its link to all keeps the words."""
    things = table("red house", "blue house", "bad house", bad=("bad house",))
    page = shown(things, words="HOUSE bad")
    assert ">bad house<" in page and "red" not in page.replace("rel", "") and ">Clear<" in page
    assert "q=HOUSE+bad" in page


def test_a_matrix_shows_troubled_nodes_first() -> None:
    """Of many nodes those with something not ready come first, and it is said how many more there are."""
    well, bad = Cell(READY, "n: fine"), Cell(TROUBLE, "n: broken")
    cells = {f"node{number:03}": {"a": well} for number in range(MOST_NODES + 5)}
    cells["node104"] = {"a": bad}
    matrix = Matrix(title="Nodes", columns=(("a", "/a"), ("b", "/b")), cells=cells)
    page = made(Content(title="Things", matrix=matrix))
    assert page.index("node104") < page.index("node000") and "5 more nodes" in page
    assert 'aria-label="n: broken"' in page
