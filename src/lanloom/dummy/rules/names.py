"""Names of what is made for a DummyClusterNetwork."""

import hashlib
import re

SLUG_MAX = 40


def resource_name(name: str, uid: str) -> str:
    """`<slug of the name, at most 40 characters>-<8 hexadecimal digits of the SHA-256 of the uid>`, a DNS-1123 label.

    Two networks never share one, whatever they are called; a network of the same name made anew gets another one.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:SLUG_MAX].strip("-") or "dcn"
    return f"{slug}-{hashlib.sha256(uid.encode()).hexdigest()[:8]}"


def daemon_set_name(name: str, uid: str) -> str:
    """The DaemonSet that keeps the bridge of a DummyClusterNetwork on every node."""
    return f"dummy-bridge-{resource_name(name, uid)}"
