"""The parsers of an uplink's attributes."""

import re
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.harvester import TX_QUEUE_MAX, parse_mac, parse_tx_queue_length
from lanloom.api.l3 import AnnotationError

MACS = st.lists(st.integers(0, 255), min_size=6, max_size=6).map(
    lambda octets: ":".join(f"{n:02X}" for n in octets)
)


@given(
    MACS | st.text(max_size=20) | st.sampled_from(["52:54:00:12:34:56\n", "52-54-00-12-34-56", "UlQAEjRW"])
)
def test_a_mac_is_safe_or_refused(text: str) -> None:
    """Whatever is accepted is the address of a single NIC, in lower case, and means itself."""
    try:
        mac = parse_mac("field", text)
    except AnnotationError as error:
        assert str(error).isprintable()
        return
    assert re.fullmatch("[0-9a-f][02468ace](:[0-9a-f]{2}){5}", mac)
    assert mac == text.lower() or b64decode(text).hex(":") == mac
    assert parse_mac("field", mac) == mac


def test_a_mac_of_harvester() -> None:
    """The bytes of an address in base64, as Harvester writes them, are that address."""
    assert parse_mac("field", "UlQAEjRW") == "52:54:00:12:34:56"
    with pytest.raises(AnnotationError):
        parse_mac("field", "AQBeAAAB")


@pytest.mark.parametrize(
    "text", ["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "33:33:00:00:00:01"]
)
def test_an_address_of_many_or_none_is_refused(text: str) -> None:
    """Group addresses and the one of zeros are no NIC's."""
    with pytest.raises(AnnotationError, match="can't be the address of a single NIC"):
        parse_mac("field", text)


@given(st.integers())
def test_a_queue_is_of_a_reasonable_length_or_refused(value: int) -> None:
    """0 and -1 mean the kernel's own length; nothing beyond a million packets passes."""
    try:
        length = parse_tx_queue_length("field", value)
    except AnnotationError:
        assert value < -1 or value > TX_QUEUE_MAX
        return
    assert length == max(0, value)
