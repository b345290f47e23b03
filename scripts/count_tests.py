"""Print what failed and the closing line of `make test`, from pytest's JUnit files: `N passed, N failed, N skipped`.

Counted from the files and not from pytest's summary, whose words change with the outcome. No file, or one
without tests, means that pytest itself broke down: that counts as one failure. So do errors in fixtures.
"""

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ORDER = ("passed", "failed", "skipped")


def outcome(case: ElementTree.Element) -> str:
    """Return what became of one test case: one of ORDER."""
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in kinds else "passed"


def outcomes(results: Path) -> dict[str, str]:
    """Return the outcome of each test by its name; a test that fails twice (call and teardown) is one."""
    try:
        cases = list(ElementTree.parse(results).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        cases = []
    if not cases:
        return {f"{results.name}: pytest wrote no results": "failed"}
    worst: dict[str, str] = {}
    for case in cases:
        name = f"{case.get('classname')}::{case.get('name')}"
        if worst.get(name) != "failed":
            worst[name] = outcome(case)
    return worst


def main() -> int:
    """Print the lines; return 1 if a test failed."""
    counts = Counter[str]()
    for results in sys.argv[1:]:
        found = outcomes(Path(results))
        counts.update(found.values())
        for name in sorted(name for name in found if found[name] == "failed"):
            print(f"FAILED {name} ({Path(results).stem})")
    print(", ".join(f"{counts[each]} {each}" for each in ORDER))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
