"""Times as Kubernetes writes them: RFC 3339 in UTC, of seconds since the epoch."""

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    """`metav1.Time`: whole seconds, for example 2026-11-21T07:00:00Z."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(seconds: float) -> str:
    """`metav1.MicroTime`: six digits of a second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> float:
    """Seconds since the epoch. Raises ValueError for text that is not RFC 3339."""
    return datetime.fromisoformat(text).timestamp()
