"""The man pages say what the help says."""

import re

import click
import pytest

from scripts.man import commands, page, pages

COMMANDS = dict(commands())


@pytest.mark.parametrize(
    "path", ["lanloom", "lanloom network list", "lanloom vlan plan", "lanloom ganeti import"]
)
def test_a_page_has_every_option(path: str) -> None:
    """A page has the name, the description and each option of its command."""
    command = COMMANDS[path]
    text = page(path, command).replace("\\-", "-").replace("\\e", "\\")
    assert f"{path.replace(' ', '-')} - " in text
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert f"{option.opts[-1]}" in text
    first = (command.help or "").split("\n\n")[0]
    assert " ".join(first.split()) in text


def test_every_command_has_a_page() -> None:
    """There is a page for each command that the help shows, and none for others."""
    found = pages()
    assert len(found) == len(COMMANDS)
    assert "lanloom-network-list.1" in found
    assert "lanloom-network-add-tags.1" not in found


def test_roff_sees_no_request_of_ours_in_a_text() -> None:
    """No line of a text begins with a dot or a quote that roff would take for a request, and no dash is a hyphen."""
    for name, text in pages().items():
        for line in text.splitlines():
            if line[:1] in (".", "'"):
                assert re.match(r"\.(TH|SH|PP|TP|BR?|nf|fi)\b", line), (name, line)
