"""What becomes of the figures of a benchmark, and of one that fails."""

import json
import os
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from subprocess import CalledProcessError

import pytest
from rich.console import Console

from bench.__main__ import benchmarks, main
from bench.cost import Stopwatch, cpu_of
from bench.report import Row, contained, failure, one_line, show, write

KEPT = Row(name="kept", measured=3, limit=4, unit="ms")
FAILED = failure("broken", RuntimeError("no luck [today]"))


def _broken(error: BaseException) -> Iterator[Row]:
    yield KEPT
    raise error


@pytest.mark.parametrize(
    ("measured", "limit", "at_least", "ratio", "ok"),
    [
        (3, 4, False, 0.75, True),
        (4, 4, False, 1.0, True),
        (5, 4, False, 1.25, False),
        (0, 0, False, 0.0, True),
        (1, 0, False, float("inf"), False),
        (40, 20, True, 0.5, True),
        (10, 20, True, 2.0, False),
        (0, 20, True, float("inf"), False),
    ],
)
def test_the_ratio_says_how_much_is_used_up(
    measured: float, limit: float, at_least: bool, ratio: float, ok: bool
) -> None:
    """A limit holds as long as no more than all of it is used up, whichever side it is on."""
    row = Row(name="x", measured=measured, limit=limit, unit="", at_least=at_least)
    assert (row.ratio, row.ok) == (ratio, ok)


def test_rows_before_a_failure_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """A benchmark that fails gives the rows that it had, then one that says why; the traceback is shown."""
    rows = list(contained("broken", lambda: _broken(RuntimeError("no luck [today]"))))
    assert rows == [KEPT, FAILED]
    assert not FAILED.ok
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (ValueError("first\nsecond line"), "failed: second line"),
        (AssertionError(), "failed: AssertionError"),
        (SystemExit(3), "failed: SystemExit: 3"),
        (ExceptionGroup("some", [ExceptionGroup("of them", [OSError("gone")])]), "failed: OSError: gone"),
        (CalledProcessError(7, ["ip"]), "returned non-zero exit status 7."),
    ],
)
def test_the_note_of_a_failure(error: BaseException, note: str) -> None:
    """The row of a failure has the benchmark's name and the last line of the error, of a group the first one's."""
    row = failure("broken", error)
    assert row.name == "broken"
    assert row.note.startswith("failed: ")
    assert note in row.note


def test_an_interruption_ends_everything() -> None:
    """An interrupted benchmark ends all of them."""
    with pytest.raises(KeyboardInterrupt):
        list(contained("broken", lambda: _broken(KeyboardInterrupt())))


def test_a_failure_is_shown() -> None:
    """The table and the line of progress show a failure by its note, without figures that were not measured."""
    page = StringIO()
    show([KEPT, FAILED], Console(file=page, width=120))
    (line,) = (text for text in page.getvalue().splitlines() if "broken" in text)
    assert [cell.strip() for cell in line.split("│")[2:7]] == ["–", "–", "–", "NO", FAILED.note]
    assert one_line(FAILED) == "broken: failed: RuntimeError: no luck [today]"


def test_results_are_json_that_everybody_reads(tmp_path: Path) -> None:
    """The file has every row with its verdict, and null where there is no figure."""
    endless = Row(name="endless", measured=1, limit=0, unit="")
    write([KEPT, endless, FAILED], tmp_path / "build" / "bench.json")
    text = (tmp_path / "build" / "bench.json").read_text()
    kept, missed, failed = json.loads(text, parse_constant=pytest.fail)["rows"]
    assert (kept["measured"], kept["ratio"], kept["ok"]) == (3, 0.75, True)
    assert (missed["measured"], missed["ratio"], missed["ok"]) == (1, None, False)
    assert (failed["measured"], failed["limit"], failed["ratio"], failed["ok"]) == (None, None, None, False)
    assert failed["note"] == FAILED.note


def test_an_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    """A name of no benchmark is refused in one line that has all names, with exit status 2; nothing is measured."""
    assert main(["cli", "clo", "report"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"bench: there is no benchmark clo, report, only {', '.join(benchmarks())}\n"


def test_a_stopwatch_tells_cpu_from_waiting() -> None:
    """A stopwatch counts the CPU seconds that are reported to it apart from those of the clock."""
    used = iter((5.0, 5.25))
    watch = Stopwatch(lambda: next(used))
    cost = watch.cost()
    assert cost.cpu == 0.25
    assert cost.wall >= 0
    assert cost.each(5).cpu == 0.05


def test_the_cpu_of_a_process() -> None:
    """The CPU seconds of a process are those that it would tell of itself."""
    before, told, after = time.process_time(), cpu_of(os.getpid()), time.process_time()
    assert before <= told <= after
