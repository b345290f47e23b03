"""The comparison itself: it hides what can't be equal, and nothing else."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.embedded.cases.kit.compare import differences
from tests.embedded.cases.kit.intended import (
    Differences,
    Intended,
    known_version,
    page,
    unlisted_and_stale,
)
from tests.embedded.cases.kit.normal import normalise
from tests.embedded.cases.kit.recorded import (
    NOT_RECORDED,
    filled,
    read,
    timeless,
    write,
)
from tests.embedded.cases.kit.wire import Json

UIDS = ("11111111-2222-3333-4444-555555555555", "aaaaaaaa-2222-3333-4444-555555555555")


def answer(**metadata: object) -> Json:
    """A transcript of one answer with an object of this metadata."""
    return [{"step": "GET x", "status": 200, "body": {"metadata": metadata}}]


def test_equal_transcripts_have_no_differences() -> None:
    """Two equal transcripts do not differ."""
    assert differences(answer(name="a"), answer(name="a")) == []


def test_each_differing_field_is_named() -> None:
    """Each field that differs, is missing or is there in addition is named by its path."""
    found = differences(answer(name="a", labels={"x": "1"}), answer(name="b", generation=1))
    assert [each.where for each in found] == [
        "0/body/metadata/generation",
        "0/body/metadata/labels",
        "0/body/metadata/name",
    ]


def test_a_number_is_not_a_boolean() -> None:
    """Values of different types differ although Python calls them equal."""
    assert differences(answer(x=1), answer(x=True))


def test_a_missing_answer_is_a_difference() -> None:
    """A transcript that ends early differs from one that goes on."""
    assert differences(answer(name="a"), [])


def test_uids_are_named_in_the_order_of_their_appearance() -> None:
    """Different uids in the same relation are equal after normalising."""
    one, two = (normalise(answer(uid=uid, owner=f"owned by {uid}")) for uid in UIDS)
    assert one == two
    mixed = normalise(answer(uid=UIDS[0], owner=f"owned by {UIDS[1]}"))
    assert mixed != one


def test_equal_versions_stay_equal() -> None:
    """Whether two answers had the same resourceVersion can be seen after normalising."""
    same = normalise(answer(resourceVersion="7") + answer(resourceVersion="7"))
    changed = normalise(answer(resourceVersion="7") + answer(resourceVersion="8"))
    assert same == normalise(answer(resourceVersion="9") + answer(resourceVersion="9"))
    assert same != changed


def test_only_recent_times_are_hidden() -> None:
    """A server's own time stamp is hidden, one that a case sent is compared."""

    def now() -> datetime:
        return datetime(2026, 5, 5, 12, tzinfo=UTC)

    shown = normalise(
        answer(a="2026-05-05T11:59:00Z", b="2001-01-01T00:00:00Z", c="2026-05-05T11:59:00.5Z"), now
    )
    assert shown[0]["body"]["metadata"] == {
        "a": "<time>",
        "b": "2001-01-01T00:00:00Z",
        "c": "<time with fraction>",
    }


def test_generated_names_keep_their_length() -> None:
    """Of a generated name the five random characters are hidden, and a suffix of another length is not."""
    right = normalise(answer(generateName="x-", name="x-abcde"))
    assert right == normalise(answer(generateName="x-", name="x-fghij"))
    assert right != normalise(answer(generateName="x-", name="x-fghijk"))


def test_a_listed_difference_is_allowed_in_its_case_only() -> None:
    """A difference passes where it is listed, with what is below its field, and nowhere else."""
    entry = Intended(title="t", reason="r", cases={"a.b": ["0/body/metadata"]})
    listed = Differences(not_compared=[], intended=[entry])
    found = differences(answer(name="a"), answer(name="b"))
    assert unlisted_and_stale("a.b", found, listed, "1.20") == ([], [])
    assert unlisted_and_stale("c.d", found, listed, "1.20") == (found, [])


def test_a_listed_difference_that_does_not_occur_is_stale() -> None:
    """A listed difference that no longer occurs is reported."""
    entry = Intended(title="t", reason="r", cases={"a.b": ["0/status"]})
    assert unlisted_and_stale("a.b", [], Differences(not_compared=[], intended=[entry]), "1.20") == (
        [],
        ["0/status"],
    )


def test_the_page_tells_titles_and_reasons() -> None:
    """The page for users holds each entry's title and reason."""
    entry = Intended(title="No apply", reason="Too much.", cases={})
    assert "### No apply\n\nToo much.\n" in page(Differences(not_compared=[], intended=[entry]))


def test_what_differs_from_one_version_is_allowed_there_alone() -> None:
    """A difference from one version passes with that version, and with no other."""
    entry = Intended(title="t", reason="r", only={"1.20": {"a.b": ["0/body/metadata"]}})
    listed = Differences(not_compared=[], intended=[], older=[entry])
    found = differences(answer(name="a"), answer(name="b"))
    assert unlisted_and_stale("a.b", found, listed, "1.20") == ([], [])
    assert unlisted_and_stale("a.b", found, listed, "1.36") == (found, [])


@pytest.mark.parametrize(
    ("server", "known"),
    [("1.19", "1.20"), ("1.20", "1.20"), ("1.35", "1.20"), ("1.36", "1.36"), ("1.40", "1.36")],
)
def test_a_server_is_judged_as_the_newest_version_known_before_it(server: str, known: str) -> None:
    """What differs from a server of any version is what is listed for the newest that is not newer."""
    assert known_version(server) == known


def test_recorded_answers_are_read_as_they_were_written(tmp_path: Path) -> None:
    """A recorded transcript reads back equal, but for ages that change from day to day."""
    usual = {"content-type": "application/json", "cache-control": "no-cache, private"}
    entry = {"step": "GET x", "status": 200, "headers": usual, "body": ["6y3d", "5m"]}
    transcripts: dict[str, list[Json]] = {
        "a.b": [entry, {"step": "note: n", "value": 1}, NOT_RECORDED],
        "c.d": [entry],
    }
    write(tmp_path, transcripts)
    assert {file.name for file in tmp_path.iterdir()} == {"a.jsonl", "c.jsonl"}
    assert read(tmp_path) == {name: timeless(each) for name, each in transcripts.items()}
    assert timeless([entry])[0]["body"] == ["<years>", "5m"]


def test_what_was_not_recorded_is_not_compared() -> None:
    """Only what a recording knows is compared."""
    found = answer(name="a", uid=UIDS[0])
    assert filled([NOT_RECORDED], found) == found
    part = [{"step": "GET x", "status": 200, "body": {"metadata": {"name": "b", "uid": NOT_RECORDED}}}]
    assert [each.where for each in differences(filled(part, found), found)] == ["0/body/metadata/name"]
