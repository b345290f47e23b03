"""The webhook of virt-api that keeps instances for KubeVirt: where it runs, no other user changes their specs.

It is registered as long as KubeVirt's object is there, as virt-operator does, under KubeVirt's names and conditions
(pkg/virt-operator/resource/generate/components/webhooks.go), and alike in all releases. KubeVirt is known by its
service account: the lab's own controllers of machines ask the API server as `USER`.
"""

import asyncio
import base64
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace

from lanloom.api.admission import AdmissionRequest, Verdict, refusal
from lanloom.api.core import VALIDATING_WEBHOOKS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from lanloom.api.kubevirtconfig import KUBEVIRTS, KubeVirt
from lanloom.api.meta import Key
from lanloom.cli.cluster import ClusterOptions
from lanloom.kube.config import Impersonation
from lanloom.kube.controller import Controller
from lanloom.kube.errors import AlreadyExists, NotFound
from lanloom.kube.http import HttpClient
from lanloom.kube.informer import Informer, all_synced
from lanloom.kube.ports import Client
from lanloom.runtime.certificates import issue
from lanloom.runtime.webhooks import TlsServer, webhook_app
from lanloom_lab.kubevirt.objects import CREATED_BY, MIGRATION_LABEL, NODE_LABEL, TARGET_LABEL, Raw
from lanloom_lab.kubevirt.releases import refuse_spec

USER = "system:serviceaccount:kubevirt:kubevirt-controller"
"""One of `KubeVirtServiceAccounts` in pkg/virt-api/webhooks/serviceaccounts.go; one process of the lab plays all."""

CONFIGURATION = Key("", "virt-api-validator")

RESTRICTED = frozenset(
    {
        CREATED_BY,
        MIGRATION_LABEL,
        NODE_LABEL,
        TARGET_LABEL,
        "kubevirt.io/schedulable",
        "kubevirt.io/install-strategy",
    }
)
"""`restrictedVmiLabels` in pkg/virt-api/webhooks/validating-webhook/admitters/vmi-create-admitter.go."""

_HOST = "127.0.0.1"


def connect_as_kubevirt(kubeconfig: Path) -> HttpClient:
    """Return a client as KubeVirt's service account, with all rights. Raises ConfigError."""
    config = ClusterOptions(str(kubeconfig)).quiet_config
    return HttpClient(replace(config, impersonate=Impersonation(user=USER, groups=("system:masters",))))


def admit(request: AdmissionRequest) -> Verdict:
    """Return the verdict about an update of an instance.

    `Admit` and `admitVMILabelsUpdate` in pkg/virt-api/webhooks/validating-webhook/admitters/vmi-update-admitter.go.
    """
    before, after = request.old_object or {}, request.object or {}
    if request.user_info.username == USER:
        return Verdict()
    if why := refuse_spec(before.get("spec") or {}, after.get("spec") or {}, by_kubevirt=False):
        return refusal(why)
    if _restricted(before) != _restricted(after):
        return refusal(
            "modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited"
        )
    return Verdict()


def _restricted(instance: Raw) -> Raw:
    labels = (instance.get("metadata") or {}).get("labels") or {}
    return {name: value for name, value in labels.items() if name in RESTRICTED}


class VirtApi:
    """Answers the API server, and registers itself there."""

    def __init__(self, client: Client, rng: Random, now: Callable[[], float]) -> None:
        self._client = client
        bundle = issue((_HOST,), now())
        self._authority = base64.b64encode(bundle.ca).decode()
        self._server = TlsServer(webhook_app([self], lambda: True), _HOST, 0, bundle)
        self._kubevirts: Informer[KubeVirt] = Informer(client, KUBEVIRTS, rng=rng)
        self._controller: Controller[Key] = Controller("virt-api", self._reconcile, rng=rng)
        self._kubevirts.on_change(lambda _old, _new: self._controller.enqueue(CONFIGURATION))

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._server.run())
            group.create_task(self._kubevirts.run())
            await self._server.started()
            await all_synced((self._kubevirts,))
            self._controller.enqueue(CONFIGURATION)
            group.create_task(self._controller.run())

    def mutate(self, request: AdmissionRequest) -> Verdict:
        """As the protocol says: no defaults."""
        return Verdict()

    async def validate(self, request: AdmissionRequest) -> Verdict:
        """As the protocol says."""
        return admit(request)

    async def _reconcile(self, key: Key) -> None:
        if not self._kubevirts.store.items():
            with suppress(NotFound):
                await self._client.delete(VALIDATING_WEBHOOKS, key.name)
            return
        body = self._body(key.name)
        try:
            await self._client.create(VALIDATING_WEBHOOKS, body)
        except AlreadyExists:  # of a lab before, whose server is gone
            await self._client.patch(VALIDATING_WEBHOOKS, key.name, body)

    def _body(self, name: str) -> dict[str, Any]:
        url = f"https://{_HOST}:{self._server.port}/validate"
        rule = {
            "apiGroups": [VIRTUAL_MACHINE_INSTANCES.group],
            "apiVersions": [VIRTUAL_MACHINE_INSTANCES.version],
            "operations": ["UPDATE"],
            "resources": [VIRTUAL_MACHINE_INSTANCES.plural],
        }
        webhook = {
            "name": "virtualmachineinstances-update-validator.kubevirt.io",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": url, "caBundle": self._authority},
            "failurePolicy": "Fail",
            "rules": [rule],
            "sideEffects": "None",
        }
        return {"metadata": {"name": name}, "webhooks": [webhook]}
