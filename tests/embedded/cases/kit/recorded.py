"""Answers that a current kube-apiserver gave to the cases, so that comparing with it needs no such server.

`tests/embedded/recorded/VERSION/AREA.jsonl` holds one case per line: its name and its normalised transcript, as
`python -m tests.embedded.cases.record` writes them. Headers that almost every answer has are left out.
"""

import json
import re
from pathlib import Path

from tests.embedded.cases.kit.intended import CURRENT, ROOT
from tests.embedded.cases.kit.wire import Json

RECORDED = ROOT / "tests/embedded/recorded"
_USUAL = {"content-type": "application/json", "cache-control": "no-cache, private"}

_YEARS = re.compile(r"\d+y(\d+d)?")
"""An age of something that a case dated itself: another one on every day."""

NOT_RECORDED = "<not recorded>"
"""Stands for what is unknown of a case, which could not go on when the answers were recorded."""

Transcripts = dict[str, list[Json]]


def read(directory: Path = RECORDED / CURRENT) -> Transcripts:
    """The normalised transcript of each recorded case."""
    lines = (line for file in sorted(directory.glob("*.jsonl")) for line in file.read_text().splitlines())
    return {
        case["case"]: timeless([_expanded(entry) for entry in case["transcript"]])
        for case in map(json.loads, lines)
    }


def write(directory: Path, transcripts: Transcripts) -> None:
    """Write recorded cases, a file for each area."""
    directory.mkdir(parents=True, exist_ok=True)
    for area in sorted({name.partition(".")[0] for name in transcripts}):
        lines = [
            json.dumps(
                {"case": name, "transcript": [_compact(entry) for entry in transcript]}, separators=(",", ":")
            )
            for name, transcript in transcripts.items()
            if name.partition(".")[0] == area
        ]
        (directory / f"{area}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def filled(recorded: Json, found: Json) -> Json:
    """A recording in which what was not recorded is as it was found."""
    if recorded == NOT_RECORDED:
        return found
    if isinstance(recorded, dict) and isinstance(found, dict):
        return {name: filled(value, found.get(name)) for name, value in recorded.items()}
    if isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        return [filled(*pair) for pair in zip(recorded, found, strict=True)]
    return recorded


def timeless(transcript: list[Json]) -> list[Json]:
    """A transcript without the ages in its tables that change from day to day."""
    return [_without_years(entry) for entry in transcript]


def _without_years(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _without_years(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_years(each) for each in value]
    return "<years>" if isinstance(value, str) and _YEARS.fullmatch(value) else value


def _compact(entry: Json) -> Json:
    if entry == NOT_RECORDED:
        return entry
    return {name: value for name, value in entry.items() if name != "headers" or value != _USUAL}


def _expanded(entry: Json) -> Json:
    return entry if "status" not in entry or "headers" in entry else {**entry, "headers": _USUAL}
