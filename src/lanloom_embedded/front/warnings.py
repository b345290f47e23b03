"""Warnings as headers of an answer, bounded as kube-apiserver bounds them.

All of them take at most 4 KiB on the wire, and there are at most 50: clients refuse an answer with more than 100
headers (Python's `http.client`). What is left out is counted in the last one.
"""

from collections.abc import Iterable

BYTES = 4096
HEADERS = 50

_CUT_CHARACTERS = 256
_NAME_BYTES = len("warning: \r\n")
_CLOSING_BYTES = 64


def warning_headers(texts: Iterable[str]) -> list[bytes]:
    """Return the values of the headers, as kubectl shows them (RFC 7234, code 299).

    If all fit, they are sent in full. Else each is cut to 256 characters, and the last one says how many are left out.
    """
    all_texts = tuple(texts)
    values = [_value(text) for text in all_texts[: HEADERS + 1]]
    if len(values) <= HEADERS and sum(map(_size, values)) <= BYTES:
        return values
    sent: list[bytes] = []
    room = BYTES - _CLOSING_BYTES
    for text in all_texts[: HEADERS - 1]:
        value = _value(text[:_CUT_CHARACTERS])
        if (room := room - _size(value)) < 0:
            break
        sent.append(value)
    if left := len(all_texts) - len(sent):
        sent.append(_value(f"… and {left} more"))
    return sent


def _size(value: bytes) -> int:
    return _NAME_BYTES + len(value)


def _value(text: str) -> bytes:
    printable = "".join(each if each.isprintable() else " " for each in text)
    escaped = printable.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'.encode("utf-8", "replace")
