"""All pages of the console, in the order of the menu."""

from collections.abc import Iterable

from lanloom.console.changes import CHANGES
from lanloom.console.deletion import with_deletion
from lanloom.console.nodepage import node_pages
from lanloom.console.page import Page
from lanloom.runtime.feature import Feature, deletion_questions_of, node_views_of, pages_of


def pages(features: Iterable[Feature]) -> tuple[Page, ...]:
    """Return the pages of the features, and those that show several features together; those with forms come last."""
    features = tuple(features)
    found = (*node_pages(node_views_of(features)), *pages_of(features), CHANGES)
    every = with_deletion(found, deletion_questions_of(features))
    return tuple(sorted(every, key=lambda page: page.answer is not None))
