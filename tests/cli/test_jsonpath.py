"""Templates and custom columns, as kubectl's documentation has them."""

from typing import Any

import pytest

from lanloom.cli.jsonpath import cell, columns_of, find, render
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
