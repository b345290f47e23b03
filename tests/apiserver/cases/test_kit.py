"""The comparison itself: it hides what can't be equal, and nothing else."""

from datetime import UTC, datetime

from tests.apiserver.cases.kit.compare import differences
from tests.apiserver.cases.kit.intended import Differences, Intended, judge, page
from tests.apiserver.cases.kit.normal import normalise
from tests.apiserver.cases.kit.wire import Json

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
    assert judge("a.b", found, listed) == ([], [])
    assert judge("c.d", found, listed) == (found, [])


def test_a_listed_difference_that_does_not_occur_is_stale() -> None:
    """A listed difference that no longer occurs is reported."""
    entry = Intended(title="t", reason="r", cases={"a.b": ["0/status"]})
    assert judge("a.b", [], Differences(not_compared=[], intended=[entry])) == ([], ["0/status"])


def test_the_page_tells_titles_and_reasons() -> None:
    """The page for users holds each entry's title and reason."""
    entry = Intended(title="No apply", reason="Too much.", cases={})
    assert "### No apply\n\nToo much.\n" in page(Differences(not_compared=[], intended=[entry]))
