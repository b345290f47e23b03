"""The list of intended differences: read, applied, and written as a page for users.

`tests/apiserver/differences.yaml` is the list, `docs/api-differences.md` the page, written by
`python -m tests.apiserver.cases.kit.intended`. An entry that no longer occurs fails its case, so the list can't rot.
"""

from fnmatch import fnmatchcase
from pathlib import Path

import yaml
from msgspec import Struct, convert

from tests.apiserver.cases.kit.compare import Difference

ROOT = Path(__file__).parents[4]
LIST = ROOT / "tests/apiserver/differences.yaml"
PAGE = ROOT / "docs/api-differences.md"

PREFACE = """\
# How the embedded API server differs from Kubernetes

The embedded API server answers as kube-apiserver does. One suite of cases (`tests/apiserver/`) runs on both
and compares every answer field by field. This page lists what differs on purpose, and why. It is written from
`tests/apiserver/differences.yaml`; the suite fails when something else differs, and when something listed here
no longer does.
"""


class Intended(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One intended difference. `cases` maps a case's name to patterns of the fields that differ in it."""

    title: str
    reason: str
    cases: dict[str, list[str]]


class Normalised(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that the comparison leaves out of every answer, or that it can't see."""

    title: str
    reason: str


class Differences(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole list. `beyond` is what no case can show: what newer releases do, and what runs beside an API server."""

    not_compared: list[Normalised]
    intended: list[Intended]
    beyond: list[Normalised] = []


def load(path: Path = LIST) -> Differences:
    """Read the list."""
    return convert(yaml.safe_load(path.read_text()), Differences)


def judge(case: str, found: list[Difference], listed: Differences) -> tuple[list[Difference], list[str]]:
    """What differs in a case without being listed, and which listed patterns no longer occur in it."""
    patterns = [pattern for entry in listed.intended for pattern in entry.cases.get(case, ())]
    unlisted = [each for each in found if not any(_matches(each, pattern) for pattern in patterns)]
    stale = [pattern for pattern in patterns if not any(_matches(each, pattern) for each in found)]
    return unlisted, stale


def page(listed: Differences) -> str:
    """The page for users."""
    parts = [PREFACE, "## Intended differences\n"]
    parts += [f"### {entry.title}\n\n{entry.reason.strip()}\n" for entry in listed.intended]
    parts += ["## What can't be equal and isn't compared\n", _items(listed.not_compared)]
    parts += ["## What newer releases do, and what runs beside an API server\n", _items(listed.beyond)]
    return "\n".join(parts)


def _items(entries: list[Normalised]) -> str:
    return "\n".join(f"- **{entry.title}**: {entry.reason.strip()}" for entry in entries) + "\n"


def _matches(difference: Difference, pattern: str) -> bool:
    # A pattern also covers what is below the field that it names.
    return fnmatchcase(difference.where, pattern) or fnmatchcase(difference.where, f"{pattern}/*")


if __name__ == "__main__":
    PAGE.write_text(page(load()))
