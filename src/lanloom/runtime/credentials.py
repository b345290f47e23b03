"""The webhooks' certificate: one for all replicas, in a Secret, made by the first of them and renewed by the leader.

Beside it is a path that nobody can guess, under which the webhooks are registered. An API server shows no certificate
of its own to webhooks unless its administrator gave it one; but it knows that path, and so does nobody else but who may
read registrations. So no pod that reaches the port can have requests judged, noted, and users listed for them.
"""

import asyncio
import base64
import re
import secrets
from collections.abc import Callable

import structlog

from lanloom.api.core import SECRETS, Secret
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from lanloom.kube.ports import Client
from lanloom.runtime.certificates import (
    Bundle,
    bundle_of,
    due,
    first_certificate,
    is_whole,
    issue,
    secret_data,
)

SECRET_NAME = "lanloom-webhook"
RETRY_SECONDS = 2.0

_PATH = "path"
_PATH_FORM = re.compile(r"[0-9a-f]{32}", re.ASCII)

log = structlog.get_logger(__name__)


def path_of(secret: Secret) -> str:
    """Return the webhooks' path, one segment of it; empty if somebody removed or spoilt it."""
    try:
        text = base64.b64decode(secret.data.get(_PATH, "")).decode("ascii")
    except ValueError:
        return ""
    return text if _PATH_FORM.fullmatch(text) else ""


def _new_path() -> dict[str, str]:
    return {_PATH: base64.b64encode(secrets.token_hex(16).encode()).decode()}


class Credentials:
    """The certificate for some host names, and a path. `now` gives seconds since the epoch."""

    def __init__(self, client: Client, names: tuple[str, ...], *, now: Callable[[], float]) -> None:
        self._client = client
        self._names = names
        self._now = now

    async def at_last(self) -> Bundle:
        """Return the certificate, asked for until the server gives it."""
        while True:
            try:
                return await self.current()
            except KubeError as error:
                report = log.debug if error.reported else log.warning
                report("webhook-certificate-not-read", secret=SECRET_NAME, error=str(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def current(self) -> Bundle:
        """Return the certificate; made, or renewed when it is due or somebody spoilt it. Raises KubeError."""
        try:
            secret = await self._client.get(SECRETS, SECRET_NAME, LANLOOM_NAMESPACE)
        except NotFound:
            return await self._first()
        bundle = bundle_of(secret)
        if not is_whole(bundle) or due(bundle.certificate, self._now()):
            return await self._renewed(secret, bundle)
        if not path_of(secret):
            await self._change(secret, _new_path())
        return bundle

    async def _renewed(self, secret: Secret, old: Bundle) -> Bundle:
        """Renew the bundle, and keep the old CA in it: replicas may still present the old certificate."""
        fresh = issue(self._names, self._now())
        authority = fresh.ca + (first_certificate(old.ca) if is_whole(old) else b"")
        renewed = Bundle(authority, fresh.certificate, fresh.key)
        if not await self._change(secret, secret_data(renewed) | ({} if path_of(secret) else _new_path())):
            return await self.current()
        log.info("webhook-certificate-renewed")
        return renewed

    async def _change(self, secret: Secret, data: dict[str, str]) -> bool:
        """False if somebody else was faster."""
        patch = {"metadata": {"resourceVersion": secret.metadata.resource_version}, "data": data}
        try:
            await self._client.patch(SECRETS, SECRET_NAME, patch, LANLOOM_NAMESPACE)
        except Conflict:
            return False
        return True

    async def _first(self) -> Bundle:
        bundle = issue(self._names, self._now())
        body = {
            "metadata": {"name": SECRET_NAME, "namespace": LANLOOM_NAMESPACE},
            "type": "kubernetes.io/tls",
            "data": secret_data(bundle) | _new_path(),
        }
        try:
            await self._client.create(SECRETS, body, LANLOOM_NAMESPACE)
        except AlreadyExists:
            return await self.current()
        return bundle
