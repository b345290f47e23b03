"""The list of intended differences: read, applied, and written as a page for users.

`tests/embedded/differences.yaml` is the list, `docs/api-differences.md` the page, written by
`python -m tests.embedded.cases.kit.intended`. An entry that no longer occurs fails its case, so the list can't rot.
"""

from fnmatch import fnmatchcase
from pathlib import Path

import yaml
from msgspec import Struct, convert

from tests.embedded.cases.kit.compare import Difference

ROOT = Path(__file__).parents[4]
LIST = ROOT / "tests/embedded/differences.yaml"
PAGE = ROOT / "docs/api-differences.md"

OLDEST = "1.20"
"""The version of Kubernetes that the suite builds."""
CURRENT = "1.36"
"""The version of Kubernetes whose answers are recorded, and which the embedded server follows."""

PREFACE = """\
# How the embedded API server differs from Kubernetes

Check whether a client or a CRD depends on behaviour that differs from Kubernetes. The embedded API server responds like
a current kube-apiserver, except for the differences on this page.

A test suite (`tests/embedded/`) compares all responses, field by field, with recorded responses of kube-apiserver 1.36
(`tests/embedded/recorded/`) and with those of a kube-apiserver that runs next to it. It fails if anything else differs,
or if a listed difference no longer exists. This page is generated from `tests/embedded/differences.yaml`.
"""


Cases = dict[str, list[str]]
"""The name of a case, and patterns of the fields that differ in it."""

PAST = f"""\
The suite also runs with kube-apiserver {OLDEST}, the latest version that builds from Debian's source. In these cases,
the embedded server follows current releases.
"""


class Intended(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One intended difference: `cases` from every version of Kubernetes, `only` from one of them (`"1.20"`)."""

    title: str
    reason: str
    cases: Cases = {}
    only: dict[str, Cases] = {}

    def patterns(self, case: str, version: str) -> list[str]:
        """The fields of a case that differ from a version."""
        return [*self.cases.get(case, ()), *self.only.get(version, {}).get(case, ())]

    @property
    def names(self) -> set[str]:
        """The names of all cases in which it occurs."""
        return {name for cases in (self.cases, *self.only.values()) for name in cases}


class Normalised(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that the comparison leaves out of every answer, or that it can't see."""

    title: str
    reason: str


class Differences(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole list.

    `older` is what the oldest version does otherwise because newer ones changed it. `beyond` is what no case can show:
    what newer releases do, and what runs next to an API server.
    """

    not_compared: list[Normalised]
    intended: list[Intended]
    older: list[Intended] = []
    beyond: list[Normalised] = []

    @property
    def entries(self) -> list[Intended]:
        """All that differs, on purpose or because the oldest version is old."""
        return [*self.intended, *self.older]


def load(path: Path = LIST) -> Differences:
    """Read the list."""
    return convert(yaml.load(path.read_text(), yaml.CSafeLoader), Differences)


def unlisted_and_stale(
    case: str, found: list[Difference], listed: Differences, version: str
) -> tuple[list[Difference], list[str]]:
    """What differs from a version in a case without being listed, and which listed patterns no longer occur in it."""
    patterns = [pattern for entry in listed.entries for pattern in entry.patterns(case, version)]
    unlisted = [each for each in found if not any(_matches(each, pattern) for pattern in patterns)]
    stale = [pattern for pattern in patterns if not any(_matches(each, pattern) for each in found)]
    return unlisted, stale


def known_version(server: str) -> str:
    """The newest version with listed differences that is not newer than a server (`1.33`): what holds for it."""
    known = sorted((OLDEST, CURRENT), key=_number)
    return max((each for each in known if _number(each) <= _number(server)), key=_number, default=OLDEST)


def page(listed: Differences) -> str:
    """The page for users."""
    parts = [PREFACE, "## Intended differences\n"]
    parts += [_section(entry) for entry in listed.intended]
    parts += [f"## Differences of Kubernetes {OLDEST}\n", PAST]
    parts += [_section(entry) for entry in listed.older]
    parts += ["## Fields that are not compared\n", _items(listed.not_compared)]
    parts += ["## Features that the suite can't compare\n", _items(listed.beyond)]
    return "\n".join(parts)


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _section(entry: Intended) -> str:
    return f"### {entry.title}\n\n{entry.reason.strip()}\n"


def _items(entries: list[Normalised]) -> str:
    return "\n".join(f"- **{entry.title}**: {entry.reason.strip()}" for entry in entries) + "\n"


def _matches(difference: Difference, pattern: str) -> bool:
    # A pattern also covers what is below the field that it names.
    return fnmatchcase(difference.where, pattern) or fnmatchcase(difference.where, f"{pattern}/*")


if __name__ == "__main__":
    PAGE.write_text(page(load()))
