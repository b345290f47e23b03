"""Paths, templates and custom columns, as kubectl's documentation has them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.cli.jsonpath import cell, columns_of, find, render
from lanloom.jsonpath import compile_path
from lanloom.refusals import Malformed

DATA: dict[str, Any] = {
    "kind": "List",
    "items": [
        {
            "name": "127.0.0.1",
            "status": {"capacity": {"cpu": 4}, "addresses": [{"type": "legacy"}], "ready": True},
        },
        {"name": "127.0.0.2", "status": {"capacity": {"cpu": 8}, "addresses": [{"type": "another"}]}},
    ],
    "users": [{"name": "myself", "user": {}}, {"name": "e2e", "user": {"a.b": "x", "none": None}}],
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{.kind}", "List"),
        ("{$.kind}", "List"),
        ("kind is {.kind}\n", "kind is List\n"),
        ("{['kind']}", "List"),
        ("{.items[*].name}", "127.0.0.1 127.0.0.2"),
        ("{..cpu}", "4 8"),
        ("{.items[*]['name', 'status.capacity']}", "127.0.0.1 127.0.0.2"),
        ('{.users[?(@.name=="e2e")].user.a\\.b}', "x"),
        ("{.users[?(@.name=='e2e')].user['a.b']}", "x"),
        ("{.items[?(@.status.capacity.cpu>4)].name}", "127.0.0.2"),
        ("{.items[?(@.status.ready)].name}", "127.0.0.1"),
        ("{.items[?(@.status.ready==true)].name}", "127.0.0.1"),
        ("{.items[?(@.name>5)].name}", ""),
        ("{.items[0].status.ready}", "true"),
        ("{.items[-1].name}", "127.0.0.2"),
        ("{.items[0:1].name}", "127.0.0.1"),
        ("{.items[7].name}", ""),
        ("{.nothing.at.all}", ""),
        ("{.users[1].user.none}", ""),
        ("{.items[0].status.capacity}", '{"cpu":4}'),
        ("{.items[*].status.addresses[*].type}", "legacy another"),
        ("{.items[0].status.*}", '{"cpu":4} [{"type":"legacy"}] true'),
        ("{range .items[*]}[{.name}, {.status.capacity.cpu}] {end}", "[127.0.0.1, 4] [127.0.0.2, 8] "),
        ('{range .items[*]}{.name}{"\\n"}{end}', "127.0.0.1\n127.0.0.2\n"),
        ("{range .items[*]}{range .status.addresses[*]}{.type},{end};{end}", "legacy,;another,;"),
        ("{range .nothing[*]}{.name}{end}-", "-"),
    ],
)
def test_templates(template: str, expected: str) -> None:
    """A template has the text that kubectl gives it."""
    assert render(template, DATA) == expected


@pytest.mark.parametrize(
    "template",
    [
        "{.items[*}",
        "{",
        "}",
        "{.items[?(name)].x}",
        "{.items[?(@.name==e2e)].x}",
        "{range .items[*]}x",
        "x{end}",
    ],
)
def test_malformed_templates(template: str) -> None:
    """A template that can't be read is refused."""
    with pytest.raises(Malformed):
        render(template, DATA)


def test_custom_columns() -> None:
    """Custom columns are titles with paths, with braces or without; what is missing is <none>."""
    columns = columns_of("NAME:.name,CPU:{.status.capacity.cpu},TYPES:.status.addresses[*].type,X:.x")
    rows = [[cell(path, item) for _, path in columns] for item in DATA["items"]]
    assert [title for title, _ in columns] == ["NAME", "CPU", "TYPES", "X"]
    assert rows == [["127.0.0.1", "4", "legacy", "<none>"], ["127.0.0.2", "8", "another", "<none>"]]
    assert columns_of("A:.x['a','b'],B:.y") == (("A", ".x['a','b']"), ("B", ".y"))
    for wrong in ("NAME", "NAME:", ":.name", "NAME:.name,"):
        with pytest.raises(Malformed):
            columns_of(wrong)


def test_paths_without_a_dot() -> None:
    """The first dot may be left out."""
    assert find("kind", DATA) == find(".kind", DATA) == ["List"]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".", [None]),
        (".a.b", [1]),
        (".a.missing.deep", []),
        (r".dotted\.name/x", ["y"]),
        (".a['b']", [1]),
        ('["dotted.name/x"]', ["y"]),
        (".list[0].t", ["r"]),
        (".list[-1].t", ["s"]),
        (".list[5].t", []),
        (".list[*].t", ["r", "s"]),
        (".list[1:].t", ["s"]),
        (".a.*", [1]),
        ('.list[?(@.t=="s")].v', [2]),
        (".list[?(@.t=='s')].v", [2]),
        (".list[?(@.v>1)].t", ["s"]),
        (".list[?(@.v)].t", ["r", "s"]),
        (".list[?(@.t==@.t)].v", [1, 2]),
        (".list[?(@.t>1)].t", []),
    ],
)
def test_json_paths(path: str, found: list[Any]) -> None:
    """A path finds its values in order, and nothing where there is nothing."""
    obj = {"a": {"b": 1}, "dotted.name/x": "y", "list": [{"t": "r", "v": 1}, {"t": "s", "v": 2}]}
    assert compile_path(path)(obj) == [obj if each is None else each for each in found]


@given(st.text(".[]*?@()='\"ab01\\:<", max_size=15))
def test_unreadable_paths_are_refused(path: str) -> None:
    """Whatever the path, it can be read or is refused, and asking it never fails."""
    try:
        find = compile_path(path)
    except Malformed:
        return
    assert isinstance(find({"a": [{"b": 1}, "x"], "b": {"a": 0}}), list)
