"""A bundle of certificates as a Secret holds it."""

import base64

from lanloom.api.core import Secret
from lanloom.runtime.certificates import Bundle

_PARTS = ("ca.crt", "tls.crt", "tls.key")
_PEM_END = b"-----END CERTIFICATE-----\n"


def bundle_of(secret: Secret) -> Bundle:
    """The Secret's bundle; parts that somebody removed are empty, which is not whole."""
    ca, certificate, key = (base64.b64decode(secret.data.get(name, "")) for name in _PARTS)
    return Bundle(ca, certificate, key)


def secret_data(bundle: Bundle) -> dict[str, str]:
    """What a Secret holds for a bundle."""
    parts = zip(_PARTS, (bundle.ca, bundle.certificate, bundle.key), strict=True)
    return {name: base64.b64encode(text).decode() for name, text in parts}


def first_certificate(pem: bytes) -> bytes:
    """The first of the certificates of a PEM text; empty if there is none."""
    head, end, _ = pem.partition(_PEM_END)
    return head + end if end else b""
