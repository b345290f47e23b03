"""Make the man pages of `lanloom` from its help (`make man`): a page for each command, in dist/man.

The help of a command is the one source: its text, its options and its examples.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from lanloom import __version__
from lanloom.command import cli

SECTION = 1
TARGET = Path(__file__).parents[1] / "dist/man"

_VERBATIM = "\b"
"""Click's mark of a paragraph whose lines stay as they are."""


def pages() -> dict[str, str]:
    """Return the text of each page by the name of its file."""
    return {f"{path.replace(' ', '-')}.{SECTION}": page(path, command) for path, command in commands()}


def commands(path: str = "lanloom", command: click.Command = cli) -> Iterator[tuple[str, click.Command]]:
    """Return the commands that the help shows, with the words by which they are called."""
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            if found is not None and not found.hidden:
                yield from commands(f"{path} {name}", found)


def page(path: str, command: click.Command) -> str:
    """Return the page of a command as roff."""
    context = click.Context(command, info_name=path)
    words = " ".join((path, *command.collect_usage_pieces(context)))
    lines = [
        f'.TH "{path.replace(" ", "-").upper()}" "{SECTION}" "" "lanloom {__version__}" "Lanloom"',
        ".SH NAME",
        f"{_text(path.replace(' ', '-'))} \\- {_text(command.get_short_help_str(200).rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_text(words)}",
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
    ]
    options = (one for one in command.get_params(context) if isinstance(one, click.Option))
    records = [record for one in options if (record := one.get_help_record(context))]
    if records:
        lines.append(".SH OPTIONS")
        for name, help_ in records:
            lines += [".TP", f".B {_text(name)}", _text(help_)]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for below, one in commands(path, command):
            if below.count(" ") == path.count(" ") + 1:
                lines += [".TP", f".BR {_text(below.replace(' ', '-'))} ({SECTION})"]
                lines.append(_text(one.get_short_help_str(200)))
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> Iterator[str]:
    """Return the paragraphs of a help text; those that are examples or tables keep their lines."""
    for paragraph in text.split("\n\n"):
        lines = [line.strip() if _VERBATIM not in paragraph else line for line in paragraph.splitlines()]
        verbatim = _VERBATIM in paragraph
        kept = [line for line in lines if line.strip() and line.strip() != _VERBATIM]
        if not kept:
            continue
        yield ".PP"
        if verbatim:
            yield from (".nf", *map(_text, kept), ".fi")
        else:
            yield _text(" ".join(kept))


def _text(text: str) -> str:
    """Return a text in which roff sees no request and no escape."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def main() -> int:
    """Write the pages."""
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (TARGET / name).write_text(text)
    print(f"man: {len(pages())} pages are in {TARGET}; read one with: man {TARGET}/lanloom.{SECTION}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
