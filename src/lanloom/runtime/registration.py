"""Registering webhooks, and keeping them registered as they should be, whatever somebody does to them.

A webhook with `matchConditions` is registered as one that fails open at first. Only when the API server's answer shows
that it keeps the conditions does the webhook fail closed: an API server that drops them, as those before 1.28 do, would
otherwise refuse everybody's pods whenever no manager answers.

The configurations themselves are installed without webhooks (`webhookconfig.installed_configurations`), and filled in
here. So the manager needs no right to create webhook configurations, by which it could read and rewrite everything.
"""

from collections.abc import Sequence
from typing import Any

import structlog

from lanloom.api.core import WebhookConfiguration
from lanloom.api.resource import Resource
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Client
from lanloom.runtime.webhookconfig import CONFIGURATION_NAME

log = structlog.get_logger(__name__)

Webhook = dict[str, Any]
CONDITIONS = "matchConditions"
_NO_CONDITIONS = "the API server has no matchConditions; Kubernetes 1.28 and later have"


class Registration:
    """Registers on one API server, whose answers tell it what that server understands.

    What an API server understands is not asked again; a manager that comes to lead makes a new one of these. With
    `embedded` it is Lanloom's own, which has no conditions: no operator can do anything about that.
    """

    def __init__(self, client: Client, *, embedded: bool = False) -> None:
        self._client = client
        self._report = log.debug if embedded else log.warning
        self._drops_conditions = False

    async def apply(self, resource: Resource[WebhookConfiguration], wanted: dict[str, Any]) -> None:
        """Fills a configuration in, and corrects what differs in it; a server's own defaults are left alone.

        Raises NotFound with the remedy where there is no such configuration: it is installed, never created here.
        """
        webhooks: list[Webhook] = wanted["webhooks"]
        try:
            current = (await self._client.get(resource, CONFIGURATION_NAME)).webhooks
        except NotFound as error:
            raise _missing(resource, error) from error
        # Twice, if the first answer shows that a webhook may fail closed; never for ever, should somebody else insist.
        for _ in range(2):
            expected = self._expected(webhooks, current)
            if expected == list(current):
                return
            patch = {"webhooks": expected}
            current = (await self._client.patch(resource, CONFIGURATION_NAME, patch)).webhooks
            self._learn(webhooks, current)

    def _expected(self, wanted: Sequence[Webhook], current: Sequence[Webhook]) -> list[Webhook]:
        return [self._cautious(webhook, _present(webhook, current)) for webhook in wanted]

    def _cautious(self, webhook: Webhook, present: Webhook) -> Webhook:
        """A webhook as it may be now, with what the server added to it as it stands."""
        if CONDITIONS not in webhook or present.get(CONDITIONS) == webhook[CONDITIONS]:
            return present | webhook
        careful = webhook | {"failurePolicy": "Ignore"}
        if self._drops_conditions:
            del careful[CONDITIONS]
        return present | careful

    def _learn(self, wanted: Sequence[Webhook], answered: Sequence[Webhook]) -> None:
        if self._drops_conditions:
            return
        for webhook in wanted:
            if CONDITIONS in webhook and CONDITIONS not in _present(webhook, answered):
                self._drops_conditions = True
                self._report("webhook-fails-open", webhook=webhook["name"], reason=_NO_CONDITIONS)


def _missing(resource: Resource[Any], error: NotFound) -> NotFound:
    message = (
        f"there is no {resource.kind} {CONFIGURATION_NAME}, so nothing that is written is checked, and the manager may "
        "not create it; install it: kubectl apply -f deploy/webhooks.yaml"
    )
    return NotFound(error.code, error.reason, message, error.status)


def _present(webhook: Webhook, current: Sequence[Webhook]) -> Webhook:
    return next((item for item in current if item.get("name") == webhook["name"]), {})
