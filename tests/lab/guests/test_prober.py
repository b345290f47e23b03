"""What a peer asks a guest, and what it makes of the answers."""

from lanloom_lab.guests.prober import Findings, findings, is_answer, question

GUEST, PEER = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
ADDRESS = bytes([192, 168, 20, 10])
ANSWER = PEER + GUEST + bytes.fromhex("08060001080006040002") + GUEST + ADDRESS + PEER + bytes(4)
"""An ARP reply as a guest sends it."""


def test_a_question_goes_to_the_guest_alone() -> None:
    """A question is an ARP probe to the guest's MAC address, and no answer."""
    frame = question(GUEST, PEER, ADDRESS)
    assert frame[:14] == GUEST + PEER + b"\x08\x06"
    assert frame[20:22] == b"\0\1"
    assert frame[28:32] == bytes(4)
    assert frame[38:42] == ADDRESS
    assert not is_answer(frame, GUEST, ADDRESS)


def test_answers() -> None:
    """An answer is an ARP reply of the guest for its address; that of another host, and a short frame, are none."""
    assert is_answer(ANSWER, GUEST, ADDRESS)
    assert not is_answer(ANSWER, PEER, ADDRESS)
    assert not is_answer(ANSWER, GUEST, bytes([192, 168, 20, 11]))
    assert not is_answer(ANSWER[:30], GUEST, ADDRESS)


def test_silences() -> None:
    """The longest silence counts wherever the guest is; that of a move is the one between two links."""
    answers = [(1.0, "net1"), (1.1, "net1"), (1.13, "net2"), (1.4, "net2")]
    assert findings(9, answers) == Findings(9, 4, ("net1", "net2"), 270.0, 30.0)
    assert findings(9, answers[:1]) == Findings(9, 1, ("net1",))
