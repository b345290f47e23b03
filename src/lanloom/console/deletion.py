"""What keeps an object from being deleted, and who uses it: for the page of any object, as its features answer."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from lanloom.api.resource import Resource
from lanloom.cli.query import Field, Query
from lanloom.console.page import Content, Names, Page, Read, Table
from lanloom.kube.errors import Forbidden, NotFound
from lanloom.kube.ports import Reader
from lanloom.kube.scoped import Widest
from lanloom.runtime.blockers import MANAGER, Blocker, DeletionQuestion, Usage, ask_all, of_others

USER_FIELDS: Query[Usage] = Query(
    (
        Field("kind", "Kind", "text", "Kind", lambda item: item.kind),
        Field("namespace", "Namespace", "text", "Namespace", lambda item: item.namespace),
        Field("name", "Name", "text", "Name", lambda item: item.name),
        Field("nodes", "Nodes", "list", "Nodes on which it runs with it", lambda item: item.nodes or None),
        Field("title", "By", "text", "What refers to the network in its place", lambda item: item.title),
    ),
    ("kind", "namespace", "name", "nodes"),
)
"""The users of a network."""

BLOCKER_FIELDS: Query[Blocker] = Query(
    (
        Field(
            "why",
            "Why",
            "text",
            "What it waits for",
            lambda item: item.why if item.whose == MANAGER else f"{item.what}, of {item.whose}: {item.why}",
        ),
        Field(
            "waits_for",
            "Waits for",
            "list",
            "One by one",
            lambda item: item.waits_for or None,
            text="; ".join,
        ),
        Field("remedy", "Remedy", "text", "What to do about it", lambda item: item.remedy or None),
    ),
    ("why", "waits_for", "remedy"),
)
"""What blocks a deletion."""


def with_deletion(pages: Sequence[Page], questions: Sequence[DeletionQuestion]) -> tuple[Page, ...]:
    """Return the pages; those of one object also tell what keeps it, as `lanloom why-not-deleted` does."""
    return tuple(_asking(page, page.about, questions) if page.about is not None else page for page in pages)


def _asking(page: Page, about: Resource[Any], questions: Sequence[DeletionQuestion]) -> Page:
    asked = [question for question in questions if question.resource == about]
    kinds = dict.fromkeys(kind for question in asked for kind in question.kinds)
    return replace(
        page, read=partial(_read, page.read, about, asked), wide=tuple(dict.fromkeys((*page.wide, *kinds)))
    )


async def _read(
    read: Read, resource: Resource[Any], questions: Sequence[DeletionQuestion], client: Reader, names: Names
) -> Content:
    content, widest = await read(client, names), Widest(client)
    try:
        item = await client.get(resource, names["name"], names.get("namespace", ""))
        answer = await ask_all(widest, questions, item)
    except (Forbidden, NotFound):
        return replace(content, remarks=(*content.remarks, UNKNOWN))
    deleting = item.metadata.is_deleting
    found = (*(of_others(questions, item) if deleting else ()), *answer.blockers)
    blockers = Table(
        title="What keeps it" if deleting else "What would keep it from being deleted",
        query=BLOCKER_FIELDS,
        rows=found,
    )
    users = Table(
        title="Users", query=USER_FIELDS, rows=answer.users, name=lambda item: item.title, href=page_of
    )
    return replace(
        content,
        remarks=(*content.remarks, *answer.notes, *((PARTIAL,) if widest.narrowed else ())),
        blockers=(users, blockers),
    )


PARTIAL = "Users in namespaces that you may not read are not shown."
UNKNOWN = "Who uses it, and what keeps it from being deleted, is shown to those who may see all users."


def page_of(user: Usage) -> str:
    """Return the page of a user; empty for one that has none."""
    return f"/machines/{user.namespace}/{user.name}" if user.kind == "VirtualMachine" else ""
