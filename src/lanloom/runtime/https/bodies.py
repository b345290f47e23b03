"""Bounds on the body of one request.

A body of 3 MiB can hold a million values, and every later step walks through all of them. So the values and levels of
a JSON text are counted first, by a few passes that run in C.
"""

from itertools import accumulate

from lanloom.runtime.https.errors import BadRequest, EntityTooLarge

BODY_BYTES = 3 * 1024 * 1024
"""Bytes of a request's body, as in kube-apiserver."""

VALUES = 100_000
"""Values in a body: objects, lists and scalars. The largest definitions in use have about 25,000."""

DEPTH = 100
"""Levels of objects and lists within each other. It leaves room for recursive steps on Python's stack."""

NUMBER_DIGITS = 400
"""Digits of a number without a break. Python needs quadratic time for an integer, and no double has so many."""

OBJECT_BYTES = 1_572_864
"""Bytes of JSON of a stored object, which is etcd's limit on a request."""

_OPENING, _CLOSING = b"[{", b"]}"
_STEPS = bytes.maketrans(_OPENING + _CLOSING, bytes([1, 1, 255, 255]))
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_NO_BRACKET = bytes(byte for byte in range(256) if byte not in _OPENING + _CLOSING)


def check_json(text: bytes, values: int = VALUES, depth: int = DEPTH) -> None:
    """Raise EntityTooLarge for more than so many values, BadRequest for more than so many levels.

    It needs linear time. A text that is not JSON is measured up to its first error as a reader would read it.
    """
    opened = text.count(b"[") + text.count(b"{")
    if opened <= depth and opened + text.count(b",") < values:
        return
    if text.count(b'"') - text.count(b'\\"') > 4 * values:
        # More texts than there can be values and names. It is asked first because `_bare` cuts at each quote.
        raise too_many_values(values)
    bare = _bare(text)
    if _values(bare) > values:
        raise too_many_values(values)
    if _depth(bare) > depth:
        raise too_deep(depth)


def check_numbers(text: bytes) -> None:
    """Raise ValueError for a JSON text with a number of more than `NUMBER_DIGITS` digits."""
    run = b"0" * (NUMBER_DIGITS + 1)
    if run in text.translate(_DIGITS) and run in _bare(text).translate(_DIGITS):
        raise ValueError(f"a number has more than {NUMBER_DIGITS} digits; shorten it or make it text")


def count_values(text: bytes) -> int:
    """Return the number of values in a JSON text; an empty object or list counts twice."""
    return _values(_bare(text))


def _depth(bare: bytes) -> int:
    """Return the number of levels."""
    brackets = bare.translate(_STEPS, _NO_BRACKET)
    return max(accumulate(memoryview(brackets).cast("b")), default=0)


def _bare(text: bytes) -> bytes:
    """Return a JSON text without what stands in its strings."""
    # Two backslashes first: what then stands before a quote is an escape.
    return b"".join(text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])


def _values(bare: bytes) -> int:
    # Each value but the first follows a comma, or is the first one in an object or a list.
    return 1 + bare.count(b",") + bare.count(b"[") + bare.count(b"{")


def too_many_values(limit: int = VALUES) -> EntityTooLarge:
    """Return the refusal of a body with more than `limit` values."""
    return EntityTooLarge(
        f"Request entity too large: the body holds more than {limit} values; split it into several objects"
    )


def too_deep(limit: int = DEPTH) -> BadRequest:
    """Return the refusal of a body with more than `limit` levels."""
    return BadRequest(
        f"the body is nested more than {limit} levels deep; reduce the nesting of its objects and lists"
    )


def check_object(kind: str, name: str, data: bytes) -> None:
    """Check the JSON of an object that is to be stored. Raises EntityTooLarge, BadRequest (too deep).

    Patches can make more of an object than one body can hold.
    """
    check_json(data)
    if len(data) > OBJECT_BYTES:
        raise EntityTooLarge(
            f"Request entity too large: {kind} {name} would take {len(data)} bytes, the limit is {OBJECT_BYTES}; "
            "split it into several objects"
        )
