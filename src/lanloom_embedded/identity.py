"""The server's certificate and the administrator's token: kept in the server's data, and renewed while it runs.

A kubeconfig names the CA. So the CA and its key are kept, in the Secret `kube-system/lanloom-serve`, with all other
Secrets in a data file that only its owner can read; a backup has it, too. Certificates come and go under it: a new
address, a new year. A CA lives for ten years. Two years before its end a second one is made, and kubeconfigs name both;
it signs when the first one ends within a year.

The clock may be wrong. A clock before the beginning of every CA changes nothing, since clients whose clock is right
accept the certificate that is there. A CA beyond its end is kept, since the clock may go back.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog
import yaml
from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.core import SECRETS
from lanloom.kube.errors import KubeError, NotFound
from lanloom.kube.ports import Client
from lanloom.node.files import replace_at
from lanloom.runtime.certificates import (
    LIFETIME_DAYS,
    Authority,
    Bundle,
    authority_ends,
    due,
    expires,
    is_whole,
    new_authority,
    sign,
    validity,
    wait_for_check,
)

log = structlog.get_logger(__name__)

NAMESPACE = "kube-system"
NAME = "lanloom-serve"

AUTHORITY_DAYS = 3650
SUCCESSION_DAYS = 730
"""The days before the end of a CA at which kubeconfigs begin to name the next one."""

CHECK_SECONDS = 3600.0
_AUTHORITIES = 4
"""CAs that are kept. There are more than two only where the clock was set years ahead."""


class Identity(Struct, frozen=True):
    """CAs, oldest first, the server's certificate by one of them for `names`, and the administrator's bearer token."""

    authorities: tuple[Authority, ...]
    certificate: bytes
    key: bytes
    names: tuple[str, ...]
    token: str

    @property
    def authority(self) -> bytes:
        """The CAs, as clients trust them."""
        return b"".join(each.certificate for each in self.authorities)

    @property
    def is_signed(self) -> bool:
        """Whether one of the CAs issued the certificate, and the key is the certificate's."""
        return any(
            is_whole(Bundle(each.certificate, self.certificate, self.key)) for each in self.authorities
        )

    @property
    def authority_ends(self) -> float:
        """When the newest CA ends: kubeconfigs that name it are good until then."""
        return authority_ends(self.authority)


def renewed(identity: Identity, names: Sequence[str], now: float) -> Identity:
    """Return what the identity must be now for a server that is reached under `names`; itself if that is so."""
    authorities = identity.authorities
    starts = [validity(each.certificate)[0] for each in authorities if each.key]
    behind = bool(starts) and min(starts) > now
    if not behind and not any(_serves(each, now, SUCCESSION_DAYS) for each in authorities):
        authorities = (*authorities, new_authority(now, AUTHORITY_DAYS))[-_AUTHORITIES:]
        identity = replace(identity, authorities=authorities)
    stale = not behind and due(identity.certificate, now)
    if identity.names == tuple(names) and identity.is_signed and not stale:
        return identity
    able = [each for each in authorities if each.key]
    signer = next((each for each in able if _serves(each, now, LIFETIME_DAYS)), able[-1])
    bundle = sign(signer, names, now)
    return replace(identity, certificate=bundle.certificate, key=bundle.key, names=tuple(names))


def _serves(authority: Authority, now: float, days: int) -> bool:
    """Return whether a CA can sign, and goes on for so many days."""
    return bool(authority.key) and not due(authority.certificate, now, days)


class IdentityReconciler:
    """Keeps the identity of a server that is reached under `names`. `now` gives seconds since the epoch.

    Construct, `load`, then `run`. `present` gets each identity to serve from then on. `new_token` makes the token of
    a new server.
    """

    def __init__(
        self,
        client: Client,
        names: Sequence[str],
        *,
        now: Callable[[], float],
        new_token: Callable[[], str],
        present: Callable[[Identity], None],
    ) -> None:
        self._client = client
        self._names = tuple(names)
        self._now = now
        self._new_token = new_token
        self._present = present
        self._current = Identity((), b"", b"", (), "")
        self._kept = self._current

    async def load(self) -> None:
        """Present the identity in the data; made at the first start, renewed if it is due. Raises KubeError."""
        try:
            found = _decoded((await self._client.get(SECRETS, NAME, NAMESPACE)).data)
        except NotFound:
            fresh = Identity((), b"", b"", (), self._new_token())
            await self._client.create(
                SECRETS, {"metadata": {"name": NAME}, "data": _encoded(fresh)}, NAMESPACE
            )
            found = fresh
        self._current = self._kept = found if found.token else replace(found, token=self._new_token())
        self._renew()
        if self._current is self._kept:
            self._present(self._current)
        await self._keep()

    @property
    def current(self) -> Identity:
        """The identity that is presented."""
        return self._current

    async def run(self, publish: Callable[[Identity], None]) -> None:
        """Renew the certificate in time, and at once when the clock is set; until cancelled.

        `publish` gets an identity with other CAs once it is kept. It may raise OSError, and is then called again.
        """
        published = self._current.authorities
        while True:
            await wait_for_check(CHECK_SECONDS, self._now)
            self._renew()
            try:
                await self._keep()
                if published != self._current.authorities:
                    publish(self._current)
                    published = self._current.authorities
            except (KubeError, OSError) as error:
                log.error("certificate-not-kept", secret=f"{NAMESPACE}/{NAME}", error=str(error))

    def _renew(self) -> None:
        """Present what is due first: that it can't be kept, say on a full disk, must not end the service."""
        before, fresh = self._current, renewed(self._current, self._names, self._now())
        if fresh is before:
            return
        self._current = fresh
        self._present(fresh)
        log.info("certificate-renewed", names=fresh.names, expires=_date(expires(fresh.certificate)))
        if before.authorities and fresh.authorities != before.authorities:
            log.warning(
                "certificate-authority-added",
                message="copy the kubeconfig again wherever it was copied to; older copies fail at `copies_fail`",
                copies_fail=_date(before.authority_ends),
                expires=_date(fresh.authority_ends),
            )

    async def _keep(self) -> None:
        if self._kept is self._current:
            return
        keeping = self._current
        await self._client.patch(SECRETS, NAME, {"data": _encoded(keeping)}, NAMESPACE)
        self._kept = keeping


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _decoded(data: Mapping[str, str]) -> Identity:
    """Return the identity in a Secret's data. Of an older Lanloom it has one CA without a key."""
    kept = {name: base64.b64decode(value) for name, value in data.items()}
    old = (Authority(kept["ca.crt"], b""),) if kept.get("ca.crt") else ()
    authorities = (
        msgspec.json.decode(kept["authorities"], type=tuple[Authority, ...]) if "authorities" in kept else old
    )
    return Identity(
        authorities,
        kept.get("tls.crt", b""),
        kept.get("tls.key", b""),
        msgspec.json.decode(kept.get("names", b"[]"), type=tuple[str, ...]),
        kept.get("token", b"").decode(),
    )


def _encoded(identity: Identity) -> dict[str, str]:
    parts = {
        "authorities": msgspec.json.encode(identity.authorities),
        "ca.crt": identity.authority,
        "tls.crt": identity.certificate,
        "tls.key": identity.key,
        "token": identity.token.encode(),
        "names": msgspec.json.encode(identity.names),
    }
    return {name: base64.b64encode(value).decode() for name, value in parts.items()}


def write_kubeconfig(path: Path, address: str, identity: Identity) -> None:
    """Write the administrator's kubeconfig, readable by its owner only, all of it or nothing."""
    authority = base64.b64encode(identity.authority).decode()
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lanloom",
        "clusters": [
            {"name": "lanloom", "cluster": {"server": address, "certificate-authority-data": authority}}
        ],
        "users": [{"name": "lanloom-admin", "user": {"token": identity.token}}],
        "contexts": [{"name": "lanloom", "context": {"cluster": "lanloom", "user": "lanloom-admin"}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_at(path, yaml.safe_dump(document, sort_keys=False).encode())
