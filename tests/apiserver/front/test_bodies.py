"""Bodies are read as the real server reads them."""

import pytest

from lanloom.apiserver.front.bodies import from_json


def test_whole_numbers_are_integers() -> None:
    """A number without a fraction is an integer however it is written."""
    assert repr(from_json(b"[3.0, 1e3, 1.5, 2]")) == "[3, 1000, 1.5, 2]"


@pytest.mark.parametrize("body", [b"1e999", b"{nonsense", b"", b"[" * 100_000])
def test_what_is_no_json_is_a_value_error(body: bytes) -> None:
    """A document that can't be read, or not without loss, is refused."""
    with pytest.raises(ValueError, match="json parse error"):
        from_json(body)
