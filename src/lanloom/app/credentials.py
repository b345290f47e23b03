"""The webhooks' certificate: one for all replicas, in a Secret, made by the first of them and renewed by the leader."""

import asyncio
from collections.abc import Callable

import structlog

from lanloom.api.core import SECRETS, Secret
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.app.bundles import bundle_of, first_certificate, secret_data
from lanloom.app.certificates import Bundle, due, is_whole, issue
from lanloom.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from lanloom.kube.ports import Client

SECRET_NAME = "lanloom-webhook"
RETRY_SECONDS = 2.0

log = structlog.get_logger(__name__)


class Credentials:
    """The certificate for some host names. `now` gives seconds since the epoch."""

    def __init__(self, client: Client, names: tuple[str, ...], *, now: Callable[[], float]) -> None:
        self._client = client
        self._names = names
        self._now = now

    async def at_last(self) -> Bundle:
        """The certificate, asked for until the server gives it."""
        while True:
            try:
                return await self.current()
            except KubeError as error:
                log.warning("webhook-certificate-not-read", secret=SECRET_NAME, error=str(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def current(self) -> Bundle:
        """The certificate; made, or renewed when it is due or somebody spoilt it. Raises KubeError."""
        try:
            secret = await self._client.get(SECRETS, SECRET_NAME, LANLOOM_NAMESPACE)
        except NotFound:
            return await self._first()
        bundle = bundle_of(secret)
        if is_whole(bundle) and not due(bundle.certificate, self._now()):
            return bundle
        return await self._renewed(secret, bundle)

    async def _renewed(self, secret: Secret, old: Bundle) -> Bundle:
        """The old CA stays in the bundle, so that replicas that still present the old certificate are believed."""
        fresh = issue(self._names, self._now())
        authority = fresh.ca + (first_certificate(old.ca) if is_whole(old) else b"")
        renewed = Bundle(authority, fresh.certificate, fresh.key)
        patch = {
            "metadata": {"resourceVersion": secret.metadata.resource_version},
            "data": secret_data(renewed),
        }
        try:
            await self._client.patch(SECRETS, SECRET_NAME, patch, LANLOOM_NAMESPACE)
        except Conflict:
            return await self.current()
        log.info("webhook-certificate-renewed")
        return renewed

    async def _first(self) -> Bundle:
        bundle = issue(self._names, self._now())
        body = {
            "metadata": {"name": SECRET_NAME, "namespace": LANLOOM_NAMESPACE},
            "type": "kubernetes.io/tls",
            "data": secret_data(bundle),
        }
        try:
            await self._client.create(SECRETS, body, LANLOOM_NAMESPACE)
        except AlreadyExists:
            return await self.current()
        return bundle
