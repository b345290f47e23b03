"""What the commands that list and show the objects of a feature print alike: problems, sections, and Events."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from lanloom.api.core import EVENTS, Event
from lanloom.cli.console import console as make_console
from lanloom.cli.console import paragraph

if TYPE_CHECKING:
    from rich.console import Console

    from lanloom.cli.cluster import ClusterOptions
    from lanloom.kube.ports import Client

T = TypeVar("T")

LISTED = 30
"""Lines of a section, and rows of a table, that are shown; all of them with `--output json`."""

_EVENTS = 10


class EventView(Struct, frozen=True, kw_only=True):
    """An Event of an object: when it was last recorded (RFC 3339), and how often."""

    last: str
    type: str
    reason: str
    message: str
    count: int = 1


async def read_events(client: "Client", *uids: str) -> tuple[EventView, ...]:
    """Return the Events of the objects of those uids, the latest last. Raises KubeError."""
    lists = await asyncio.gather(
        *(client.list(EVENTS, fields=f"involvedObject.uid={uid}") for uid in uids if uid)
    )
    found = [item for listing in lists for item in listing.items]
    return tuple(
        EventView(
            last=_last(item), type=item.type, reason=item.reason, message=item.message, count=item.count
        )
        for item in sorted(found, key=lambda item: (_last(item), item.metadata.version))
    )


def _last(item: Event) -> str:
    return item.last_timestamp or item.first_timestamp or item.metadata.creation_timestamp or ""


def event_lines(events: Sequence[EventView]) -> Iterator[str]:
    """Yield one line for each of the latest Events."""
    for item in events[-_EVENTS:]:
        times = f" (x{item.count})" if item.count > 1 else ""
        yield f"{item.last} {item.type} {item.reason}{times}: {item.message}"


def print_section(console: "Console", title: str, lines: Iterable[str], *, latest: bool = False) -> None:
    """Print a titled section; nothing if it is empty. Of too many lines, print the first, or the `latest`."""
    every = list(lines)
    if not every:
        return
    console.print()
    console.print(paragraph(f"{title}:", style="bold"))
    for line in every[-LISTED:] if latest else every[:LISTED]:
        console.print(paragraph(line, 2))
    if len(every) > LISTED:
        more = "earlier ones" if latest else "more"
        console.print(paragraph(f"and {len(every) - LISTED} {more}: see --output json", 2))


def absent(kind: str, cluster: "ClusterOptions", remedy: str = "", *, namespaced: bool = True) -> str:
    """Say that a list shows no object of a kind: in a namespace or in any, or of those that selectors choose."""
    scope = cluster.scope if namespaced else ""
    place = f" in the namespace {scope}" if scope else ""
    elsewhere = " To list those of all namespaces, use -A." if scope else ""
    if cluster.selector or cluster.field_selector:
        return f"No {kind}{place} has what the selector asks for.{elsewhere}"
    return f"There is no {kind}{place}.{elsewhere} {remedy}".rstrip()


def print_remarks(
    views: Sequence[T], absent: str, problem: Callable[[T], str], command: Callable[[T], str]
) -> None:
    """Print the problem of the first object that has one, and the command that shows the object.

    `problem` is empty for an object without one. Where there are no objects, print `absent`.
    """
    console = make_console()
    if not views:
        console.print(absent)
    bad = next((view for view in views if problem(view)), None)
    if bad is not None:
        console.print(paragraph(problem(bad)))
        console.print(paragraph(f"See `{command(bad)}`."))
