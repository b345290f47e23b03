"""When a change has proved itself, when it is undone, and whose fault it was."""

from hypothesis import given
from hypothesis import strategies as st

from lanloom.features.vlan.agent.rollback.changes import (
    BOOT_CONFIRM_SECONDS,
    CONFIRM_SECONDS,
    RECENT_SECONDS,
    SETTLE_SECONDS,
    UNRELATED_SECONDS,
    Checkpoint,
    Contact,
    PendingChange,
    begin_change,
    evaluate,
    forget_unwanted,
    retry,
)
from tests.features.vlan.agent.rollback.test_revisions import NAME, NEW, OLD

NEVER = float("inf")
BEFORE = Checkpoint(carried=(OLD,))
T = 1000.0


def _begun() -> Checkpoint:
    """A change at T, just after the API server was heard."""
    return begin_change(BEFORE, (NEW,), T, contact=Contact(answered=T - 1), effective=True)


def _evaluate(
    checkpoint: Checkpoint, after: float, *, answered: float, unanswered: float, settled: float = NEVER
) -> Checkpoint:
    """The judgement so many seconds after T; the other times are relative to T, too."""
    return evaluate(checkpoint, T + after, contact=Contact(T + answered, T + unanswered), settled=T + settled)


def test_a_change_begins_a_trial() -> None:
    """What was carried before is what would be returned to."""
    assert _begun() == Checkpoint(carried=(NEW,), fallback=(OLD,), pending=PendingChange(began=T))


def test_nothing_new_changes_nothing() -> None:
    """The same forms leave the memory as it is."""
    assert begin_change(BEFORE, (OLD,), T, contact=Contact(answered=T), effective=True) is BEFORE


def test_what_has_no_effect_needs_no_trial() -> None:
    """A change of the description, of which nothing follows on the host, is taken up as it is."""
    assert begin_change(BEFORE, (NEW,), T, contact=Contact(answered=T), effective=False) == Checkpoint(
        carried=(NEW,)
    )


def test_silence_before_a_change_excuses_it() -> None:
    """Where the API server was not heard anyway, its silence afterwards means nothing."""
    contact = Contact(answered=T - RECENT_SECONDS - 1)
    assert begin_change(BEFORE, (NEW,), T, contact=contact, effective=True) == Checkpoint(carried=(NEW,))


def test_a_mere_removal_can_t_be_undone() -> None:
    """Where networks only go there is nothing to return to."""
    assert begin_change(BEFORE, (), T, contact=Contact(answered=T), effective=True) == Checkpoint()


def test_a_second_change_begins_the_trial_anew() -> None:
    """Both are undone together, to what was confirmed last."""
    third = begin_change(_begun(), (), T + 5, contact=Contact(answered=T + 5), effective=True)
    assert third == Checkpoint()
    fourth = begin_change(_begun(), (NEW, NEW), T + 5, contact=Contact(answered=T + 5), effective=True)
    assert (fourth.fallback, fourth.pending) == ((OLD,), PendingChange(began=T + 5))


def test_an_answer_after_all_is_in_force_confirms() -> None:
    """Only an answer to a question that was asked after everything had settled counts."""
    checkpoint = _begun()
    assert _evaluate(checkpoint, 10, answered=5.1, unanswered=-NEVER, settled=5) == Checkpoint(carried=(NEW,))
    assert _evaluate(checkpoint, 10, answered=5, unanswered=-NEVER, settled=5) is checkpoint
    assert _evaluate(checkpoint, 10, answered=9, unanswered=-NEVER) is checkpoint


def test_a_change_that_never_settles_is_confirmed_in_the_end() -> None:
    """A lease that never comes must not keep a change on trial endlessly."""
    checkpoint = _begun()
    assert (
        _evaluate(checkpoint, SETTLE_SECONDS + 1, answered=SETTLE_SECONDS - 1, unanswered=SETTLE_SECONDS)
        is checkpoint
    )
    assert _evaluate(
        checkpoint, SETTLE_SECONDS + 1, answered=SETTLE_SECONDS + 0.5, unanswered=-NEVER
    ) == Checkpoint(carried=(NEW,))


def test_silence_undoes_the_change() -> None:
    """After 30 s in which a question was not answered the node returns, and does not try the same again."""
    checkpoint = _begun()
    assert _evaluate(checkpoint, CONFIRM_SECONDS - 1, answered=-1, unanswered=20) is checkpoint
    assert (
        _evaluate(checkpoint, CONFIRM_SECONDS, answered=-1, unanswered=-5) is checkpoint
    )  # no request was made since
    back = _evaluate(checkpoint, CONFIRM_SECONDS, answered=-1, unanswered=20)
    assert (back.carried, back.fallback, back.rejected) == ((OLD,), (), {NAME: NEW.digest})
    assert back.pending == PendingChange(began=T + CONFIRM_SECONDS, rolled_back=True, suspects=(NAME,))


def test_silence_counts_from_the_last_answer() -> None:
    """An address that comes late may cut the node off late."""
    checkpoint = _begun()
    assert _evaluate(checkpoint, 60, answered=40, unanswered=50) is checkpoint
    assert _evaluate(checkpoint, 40 + CONFIRM_SECONDS, answered=40, unanswered=50).carried == (OLD,)


def test_a_reboot_means_a_longer_timeout() -> None:
    """After a boot the API server may take minutes."""
    checkpoint = Checkpoint(
        carried=(NEW,), fallback=(OLD,), pending=PendingChange(began=T, timeout=BOOT_CONFIRM_SECONDS)
    )
    assert _evaluate(checkpoint, BOOT_CONFIRM_SECONDS - 1, answered=-1, unanswered=20) is checkpoint
    assert _evaluate(checkpoint, BOOT_CONFIRM_SECONDS, answered=-1, unanswered=20).carried == (OLD,)


def _undone() -> Checkpoint:
    return _evaluate(_begun(), CONFIRM_SECONDS, answered=-1, unanswered=20)


def test_an_answer_after_the_return_proves_guilt() -> None:
    """The form stays rejected, and nothing is on trial any more."""
    checkpoint = _evaluate(_undone(), CONFIRM_SECONDS + 10, answered=CONFIRM_SECONDS + 5, unanswered=20)
    assert checkpoint == Checkpoint(carried=(OLD,), rejected={NAME: NEW.digest})


def test_lasting_silence_clears_a_change() -> None:
    """Where the API server stays away all the same, what was suspected is free to be taken up again."""
    checkpoint = _undone()
    assert (
        _evaluate(checkpoint, CONFIRM_SECONDS + UNRELATED_SECONDS - 1, answered=-1, unanswered=300)
        is checkpoint
    )
    assert _evaluate(checkpoint, CONFIRM_SECONDS + UNRELATED_SECONDS, answered=-1, unanswered=300) == BEFORE


def test_clearing_is_of_the_suspects_only() -> None:
    """What was rejected before stays so."""
    checkpoint = Checkpoint(
        carried=(OLD,),
        rejected={NAME: NEW.digest, "other": "d"},
        pending=PendingChange(began=T, rolled_back=True, suspects=(NAME,)),
    )
    assert _evaluate(checkpoint, UNRELATED_SECONDS, answered=-1, unanswered=200).rejected == {"other": "d"}


def test_a_network_that_is_new_goes_when_it_is_undone() -> None:
    """There is no form of it to return to."""
    checkpoint = begin_change(Checkpoint(), (NEW,), T, contact=Contact(answered=T), effective=True)
    assert _evaluate(checkpoint, CONFIRM_SECONDS, answered=-1, unanswered=20).carried == ()


def test_rejections_end_with_what_they_are_about() -> None:
    """A form that is not wanted any more may come again later; an operator may also ask for another try."""
    checkpoint = Checkpoint(carried=(OLD,), rejected={NAME: NEW.digest})
    assert forget_unwanted(checkpoint, [NEW]) is checkpoint
    assert forget_unwanted(checkpoint, [OLD]).rejected == {}
    assert forget_unwanted(checkpoint, []).rejected == {}
    assert retry(checkpoint, NAME).rejected == {}
    assert retry(checkpoint, "other") is checkpoint


@given(
    st.lists(st.tuples(st.floats(0.1, 40), st.booleans(), st.booleans()), max_size=40),
    st.integers(0, 3),
)
def test_any_course_of_events_ends(steps: list[tuple[float, bool, bool]], wanted: int) -> None:
    """Whatever is heard and whenever: a node carries one of the two forms, and with answers it comes to rest."""
    checkpoint, now, contact, settled = _begun(), T, Contact(answered=T - 1), NEVER
    for seconds, answered, calm in steps:
        now += seconds
        contact = Contact(now, contact.unanswered) if answered else Contact(contact.answered, now)
        settled = min(settled, now) if calm else NEVER
        checkpoint = evaluate(checkpoint, now, contact=contact, settled=settled)
        assert checkpoint.carried in ((OLD,), (NEW,))
        assert (checkpoint.carried == (NEW,)) or checkpoint.pending is None or checkpoint.pending.rolled_back
        if wanted and NAME not in checkpoint.rejected:
            checkpoint = begin_change(checkpoint, (NEW,), now, contact=contact, effective=True)
    for _ in range(8):
        now += SETTLE_SECONDS
        checkpoint = evaluate(checkpoint, now, contact=Contact(now - 1), settled=settled)
    assert checkpoint.pending is None
