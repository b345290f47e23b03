"""What a client sends of its user with each request: a token, a password, and the user to impersonate."""

import base64
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from lanloom.kube.config import ClusterConfig, Impersonation
from lanloom.kube.errors import ConfigError

_HEADER_NAME = "!#$&'*+-.^_`|~"
"""Characters of a header's name besides letters and digits; the percent sign is for those that are escaped."""


def identity_headers(config: ClusterConfig, token: str) -> Iterator[tuple[str, str]]:
    """Yield the headers of the user, whose token of this moment is `token`; empty for one without a token."""
    if token:
        yield "Authorization", f"Bearer {token}"
    elif config.username:
        pair = f"{config.username}:{config.password}".encode()
        yield "Authorization", f"Basic {base64.b64encode(pair).decode()}"
    yield from _impersonation_headers(config.impersonate)


def _impersonation_headers(wanted: Impersonation) -> Iterator[tuple[str, str]]:
    if wanted.user:
        yield "Impersonate-User", wanted.user
    if wanted.uid:
        yield "Impersonate-Uid", wanted.uid
    for group in wanted.groups:
        yield "Impersonate-Group", group
    for key, texts in wanted.extra.items():
        for text in texts:
            yield f"Impersonate-Extra-{quote(key, safe=_HEADER_NAME)}", text


def read_token(config: ClusterConfig) -> str:
    """Return the token of this moment: that of the token file if there is one. Raises ConfigError."""
    if not config.token_file:
        return config.token
    try:
        return Path(config.token_file).read_text().strip()
    except OSError as error:
        raise ConfigError(f"can't read the token file {config.token_file}: {error.strerror}") from None
