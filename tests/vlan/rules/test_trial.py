"""When a change has proved itself, when it is undone, and whose fault it was."""

from hypothesis import given
from hypothesis import strategies as st

from lanloom.vlan.rules.trial import (
    BOOT_PATIENCE,
    INNOCENCE,
    LONGEST,
    PATIENCE,
    RECENT,
    Contact,
    Memory,
    Trial,
    changed,
    judged,
    retried,
    reviewed,
)
from tests.vlan.rules.test_forms import NAME, NEW, OLD

NEVER = float("inf")
BEFORE = Memory(carried=(OLD,))
T = 1000.0


def _begun() -> Memory:
    """A change at T, just after the API server was heard."""
    return changed(BEFORE, (NEW,), T, contact=Contact(heard=T - 1), effective=True)


def _judged(memory: Memory, after: float, *, heard: float, missed: float, settled: float = NEVER) -> Memory:
    """The judgement so many seconds after T; the other times are relative to T, too."""
    return judged(memory, T + after, contact=Contact(T + heard, T + missed), settled=T + settled)


def test_a_change_begins_a_trial() -> None:
    """What was carried before is what would be returned to."""
    assert _begun() == Memory(carried=(NEW,), fallback=(OLD,), trial=Trial(began=T))


def test_nothing_new_changes_nothing() -> None:
    """The same forms leave the memory as it is."""
    assert changed(BEFORE, (OLD,), T, contact=Contact(heard=T), effective=True) is BEFORE


def test_what_has_no_effect_needs_no_trial() -> None:
    """A change of the description, of which nothing follows on the host, is taken up as it is."""
    assert changed(BEFORE, (NEW,), T, contact=Contact(heard=T), effective=False) == Memory(carried=(NEW,))


def test_silence_before_a_change_excuses_it() -> None:
    """Where the API server was not heard anyway, its silence afterwards means nothing."""
    contact = Contact(heard=T - RECENT - 1)
    assert changed(BEFORE, (NEW,), T, contact=contact, effective=True) == Memory(carried=(NEW,))


def test_a_mere_removal_can_t_be_undone() -> None:
    """Where networks only go there is nothing to return to."""
    assert changed(BEFORE, (), T, contact=Contact(heard=T), effective=True) == Memory()


def test_a_second_change_begins_the_trial_anew() -> None:
    """Both are undone together, to what was confirmed last."""
    third = changed(_begun(), (), T + 5, contact=Contact(heard=T + 5), effective=True)
    assert third == Memory()
    fourth = changed(_begun(), (NEW, NEW), T + 5, contact=Contact(heard=T + 5), effective=True)
    assert (fourth.fallback, fourth.trial) == ((OLD,), Trial(began=T + 5))


def test_an_answer_after_all_is_in_force_confirms() -> None:
    """Only an answer to a question that was asked after everything had settled counts."""
    memory = _begun()
    assert _judged(memory, 10, heard=5.1, missed=-NEVER, settled=5) == Memory(carried=(NEW,))
    assert _judged(memory, 10, heard=5, missed=-NEVER, settled=5) is memory
    assert _judged(memory, 10, heard=9, missed=-NEVER) is memory


def test_a_change_that_never_settles_is_confirmed_in_the_end() -> None:
    """A lease that never comes must not keep a change on trial for ever."""
    memory = _begun()
    assert _judged(memory, LONGEST + 1, heard=LONGEST - 1, missed=LONGEST) is memory
    assert _judged(memory, LONGEST + 1, heard=LONGEST + 0.5, missed=-NEVER) == Memory(carried=(NEW,))


def test_silence_undoes_the_change() -> None:
    """After 30 s in which a question was not answered the node returns, and does not try the same again."""
    memory = _begun()
    assert _judged(memory, PATIENCE - 1, heard=-1, missed=20) is memory
    assert _judged(memory, PATIENCE, heard=-1, missed=-5) is memory  # nobody has asked since
    back = _judged(memory, PATIENCE, heard=-1, missed=20)
    assert (back.carried, back.fallback, back.rejected) == ((OLD,), (), {NAME: NEW.digest})
    assert back.trial == Trial(began=T + PATIENCE, returned=True, suspects=(NAME,))


def test_silence_counts_from_the_last_answer() -> None:
    """An address that comes late may cut the node off late."""
    memory = _begun()
    assert _judged(memory, 60, heard=40, missed=50) is memory
    assert _judged(memory, 40 + PATIENCE, heard=40, missed=50).carried == (OLD,)


def test_a_reboot_means_patience() -> None:
    """After a boot the API server may take minutes."""
    memory = Memory(carried=(NEW,), fallback=(OLD,), trial=Trial(began=T, patience=BOOT_PATIENCE))
    assert _judged(memory, BOOT_PATIENCE - 1, heard=-1, missed=20) is memory
    assert _judged(memory, BOOT_PATIENCE, heard=-1, missed=20).carried == (OLD,)


def _returned() -> Memory:
    return _judged(_begun(), PATIENCE, heard=-1, missed=20)


def test_an_answer_after_the_return_proves_guilt() -> None:
    """The form stays rejected, and nothing is on trial any more."""
    memory = _judged(_returned(), PATIENCE + 10, heard=PATIENCE + 5, missed=20)
    assert memory == Memory(carried=(OLD,), rejected={NAME: NEW.digest})


def test_lasting_silence_proves_innocence() -> None:
    """Where the API server stays away all the same, what was suspected is free to be taken up again."""
    memory = _returned()
    assert _judged(memory, PATIENCE + INNOCENCE - 1, heard=-1, missed=300) is memory
    assert _judged(memory, PATIENCE + INNOCENCE, heard=-1, missed=300) == BEFORE


def test_innocence_is_of_the_suspects_only() -> None:
    """What was rejected before stays so."""
    memory = Memory(
        carried=(OLD,),
        rejected={NAME: NEW.digest, "other": "d"},
        trial=Trial(began=T, returned=True, suspects=(NAME,)),
    )
    assert _judged(memory, INNOCENCE, heard=-1, missed=200).rejected == {"other": "d"}


def test_a_network_that_is_new_goes_when_it_is_undone() -> None:
    """There is no form of it to return to."""
    memory = changed(Memory(), (NEW,), T, contact=Contact(heard=T), effective=True)
    assert _judged(memory, PATIENCE, heard=-1, missed=20).carried == ()


def test_rejections_end_with_what_they_are_about() -> None:
    """A form that nobody wants any more may come again later; somebody may also ask for another try."""
    memory = Memory(carried=(OLD,), rejected={NAME: NEW.digest})
    assert reviewed(memory, [NEW]) is memory
    assert reviewed(memory, [OLD]).rejected == {}
    assert reviewed(memory, []).rejected == {}
    assert retried(memory, NAME).rejected == {}
    assert retried(memory, "other") is memory


@given(
    st.lists(st.tuples(st.floats(0.1, 40), st.booleans(), st.booleans()), max_size=40),
    st.integers(0, 3),
)
def test_any_course_of_events_ends(steps: list[tuple[float, bool, bool]], wanted: int) -> None:
    """Whatever is heard and whenever: a node carries one of the two forms, and with answers it comes to rest."""
    memory, now, contact, settled = _begun(), T, Contact(heard=T - 1), NEVER
    for seconds, answered, calm in steps:
        now += seconds
        contact = Contact(now, contact.missed) if answered else Contact(contact.heard, now)
        settled = min(settled, now) if calm else NEVER
        memory = judged(memory, now, contact=contact, settled=settled)
        assert memory.carried in ((OLD,), (NEW,))
        assert (memory.carried == (NEW,)) or memory.trial is None or memory.trial.returned
        if wanted and NAME not in memory.rejected:
            memory = changed(memory, (NEW,), now, contact=contact, effective=True)
    for _ in range(8):
        now += LONGEST
        memory = judged(memory, now, contact=Contact(now - 1), settled=settled)
    assert memory.trial is None
