"""Pages with commands are read as their readers read them, and one that says what is not so is found out."""

import pytest

from tests.cli.pages import Shown, rewritten, shown

PAGE = """
```console
$ lanloom network list \\
    net1
Network UUID
net1    0267ae5c-4c1b-4f5c-9d0e-0b6c5a7f0001
$ lanloom network remove net1
```

```console lab
$ lanloom status
```

```console
$ kubectl get ipnet
```
"""
FIRST = """Network UUID
net1    7b9e21fb-15ff-53c3-a8f8-e9bbb75f0be5
"""


def test_commands_with_what_they_print() -> None:
    """Each command is found with its output, or without any; those that need nodes are left out."""
    found = list(shown(PAGE))
    assert [item.command for item in found] == [
        "lanloom network list     net1",
        "lanloom network remove net1",
        "kubectl get ipnet",
    ]
    assert [item.printed.count("\n") for item in found] == [2, 0, 0]


@pytest.mark.parametrize(
    ("printed", "output", "right"),
    [
        ("a\n", "a\n", True),
        ("a\n", "b\n", False),
        ("a\n", "a\nb\n", False),
        ("", "a\n", False),
        ("NAME  AGE\nnet1  5s\n", "NAME   AGE\nnet1   2m3s\n", True),
        ("MAC aa:00:00:12:34:56\n", "MAC aa:00:00:65:43:21\n", True),
        ("MAC aa:00:01:12:34:56\n", "MAC aa:00:01:65:43:21\n", False),
        ("a\n…\nz\n", "a\nb\nc\nz\n", True),
        ("a\n…\nz\n", "a\nz\n", True),
        ("a\n…\nz\n", "a\nb\n", False),
        ("a … z\n", "a b c z\n", True),
        ("[a-z]+\n", "abc\n", False),
    ],
)
def test_what_is_right(printed: str, output: str, right: bool) -> None:
    """UUIDs, times, ages and MAC addresses may differ, and what dots stand for; nothing else may."""
    assert Shown("command", printed, 0).is_right(output) is right


def test_a_page_is_written_anew() -> None:
    """Where a command prints something else, the page gets that, and stays as it is around it."""
    one, two, three = shown(PAGE)
    assert one.is_right(FIRST)
    page = rewritten(PAGE, [(one, "one\n"), (three, "three\n")])
    assert [item.printed for item in shown(page)] == ["one\n", "", "three\n"]
    assert rewritten(PAGE, [(two, "")]) == PAGE
