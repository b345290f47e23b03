"""What an embedded server is known by: its certificate and its administrator's token, kept in its own data.

Both outlive a restart, so that kubeconfigs that were copied stay good. The certificate is renewed when it is due, or
when the server has a new address; kubeconfigs must then be copied again.
"""

import base64
import secrets
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from lanloom.api.core import SECRETS
from lanloom.kube.errors import NotFound
from lanloom.runtime.certificates import Bundle, due, issue
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.kinds import GroupPlural
from lanloom_embedded.local import LocalClient

NAMESPACE = "kube-system"
NAME = "lanloom-serve"


class Identity(Struct, frozen=True):
    """The server's certificate and the administrator's bearer token."""

    bundle: Bundle
    token: str

    @property
    def authority_data(self) -> str:
        """The CA as a kubeconfig holds it."""
        return base64.b64encode(self.bundle.ca).decode()


async def load_identity(engine: Engine, names: Sequence[str], now: float) -> Identity:
    """The server's identity for these host names and addresses, made at the first start."""
    client = LocalClient(engine, unreviewed=frozenset({GroupPlural("", "secrets")}))
    wanted = msgspec.json.encode(list(names)).decode()
    try:
        kept = _decoded((await client.get(SECRETS, NAME, NAMESPACE)).data)
    except NotFound:
        identity = Identity(issue(names, now), secrets.token_urlsafe(32))
        body = {"metadata": {"name": NAME}, "data": _encoded(identity, wanted)}
        await client.create(SECRETS, body, NAMESPACE)
        return identity
    bundle = Bundle(kept["ca.crt"], kept["tls.crt"], kept["tls.key"])
    identity = Identity(bundle, kept["token"].decode())
    if kept["names"].decode() == wanted and not due(bundle.certificate, now):
        return identity
    identity = Identity(issue(names, now), identity.token)
    await client.patch(SECRETS, NAME, {"data": _encoded(identity, wanted)}, NAMESPACE)
    return identity


def _decoded(data: Mapping[str, str]) -> dict[str, bytes]:
    return {name: base64.b64decode(value) for name, value in data.items()}


def _encoded(identity: Identity, names: str) -> dict[str, str]:
    parts = {
        "ca.crt": identity.bundle.ca,
        "tls.crt": identity.bundle.certificate,
        "tls.key": identity.bundle.key,
        "token": identity.token.encode(),
        "names": names.encode(),
    }
    return {name: base64.b64encode(value).decode() for name, value in parts.items()}
