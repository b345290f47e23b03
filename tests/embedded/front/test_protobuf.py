"""Objects in protobuf, as kubectl sends them."""

import pytest

from lanloom_embedded.front.protobuf import MAGIC, ProtobufError, decode_object


def field(number: int, content: bytes | str) -> bytes:
    """A field with bytes, shorter than 128."""
    data = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 | 2, len(data)]) + data


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """A whole body."""
    return MAGIC + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def entry(key: str, value: bytes | str) -> bytes:
    """An entry of a map."""
    return field(1, key) + field(2, value)


def test_a_config_map_is_read() -> None:
    """A ConfigMap has its name, labels and data; what Go writes for absent fields is absent."""
    meta = field(1, "a") + field(2, "") + field(8, b"") + field(11, entry("l", "1")) + b"\x38\x00"
    raw = (
        field(1, meta) + field(2, entry("x", "1")) + field(2, entry("y", "2")) + field(3, entry("z", b"\xff"))
    )
    assert decode_object(envelope("v1", "ConfigMap", raw)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "labels": {"l": "1"}},
        "data": {"x": "1", "y": "2"},
        "binaryData": {"z": "/w=="},
    }


def test_a_secret_has_base64() -> None:
    """The bytes of a Secret are base64, as in JSON."""
    raw = field(1, field(1, "a")) + field(2, entry("x", b"1")) + field(3, "Opaque")
    assert decode_object(envelope("v1", "Secret", raw))["data"] == {"x": "MQ=="}


def test_empty_texts_in_lists_stay() -> None:
    """The empty API group of a rule is the core group, and stays."""
    raw = field(1, field(1, "a")) + field(2, field(1, "get") + field(2, "") + field(3, "pods"))
    rules = decode_object(envelope("rbac.authorization.k8s.io/v1", "Role", raw))["rules"]
    assert rules == [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]


def test_false_stays() -> None:
    """A flag that is false is not the same as one that is absent."""
    raw = field(1, field(1, "a")) + b"\x20\x00"
    assert decode_object(envelope("v1", "ServiceAccount", raw))["automountServiceAccountToken"] is False


def test_unknown_fields_are_skipped() -> None:
    """Fields of a newer version, of whatever wire type, are skipped."""
    raw = b"\xf8\x01\x05" + b"\xf9\x01" + bytes(8) + b"\xfd\x01" + bytes(4) + field(1, field(1, "a"))
    assert decode_object(envelope("v1", "Namespace", raw))["metadata"] == {"name": "a"}


def test_a_lease_is_read() -> None:
    """A Lease has its holder and times with microseconds, as client-go sends it to elect a leader."""
    moment = b"\x08\x01\x10\x80\xca\xb5\xee\x01"  # 1 s and 500,000,000 ns
    spec = field(1, "me") + b"\x10\x2d" + field(3, moment) + field(4, moment) + b"\x28\x00"
    found = decode_object(
        envelope("coordination.k8s.io/v1", "Lease", field(1, field(1, "a")) + field(2, spec))
    )
    assert found["spec"]["holderIdentity"] == "me"
    assert found["spec"]["leaseDurationSeconds"] == 45
    assert found["spec"]["acquireTime"] == found["spec"]["renewTime"] == "1970-01-01T00:00:01.500000Z"


def test_times_are_rfc_3339() -> None:
    """Times are in UTC with the precision of seconds."""
    raw = field(1, field(1, "a") + field(8, b"\x08\x01"))
    meta = decode_object(envelope("v1", "Namespace", raw))["metadata"]
    assert meta["creationTimestamp"] == "1970-01-01T00:00:01Z"


BROKEN = {
    "no-magic": b"{}",
    "truncated": envelope("v1", "ConfigMap", field(1, field(1, "a")))[:-2],
    "unknown-kind": envelope("apps/v1", "Deployment", b""),
    "no-envelope": MAGIC,
    "number-for-text": envelope("v1", "ConfigMap", field(1, b"\x08\x05")),
    "not-utf-8": envelope("v1", "ConfigMap", field(1, field(1, b"\xff"))),
    "endless-number": MAGIC + b"\xff" * 20,
    "huge-number-for-bytes": MAGIC + b"\x10\xff\xff\xff\xff\xff\xff\xff\x7f",
    "group-wire-type": MAGIC + b"\x0b",
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_broken_is_refused(body: bytes) -> None:
    """Bytes that are no object of a known kind are refused, whatever they are."""
    with pytest.raises(ProtobufError):
        decode_object(body)
