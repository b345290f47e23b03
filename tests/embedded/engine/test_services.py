"""A webhook whose configuration names a Service is called where the Service's Endpoints are."""

import pytest

from lanloom_embedded.client import address_of
from lanloom_embedded.engine.calls import Call
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.kinds import Raw
from tests.embedded.engine.running import config_map, kind_of, running_engine

NAME = "hook.ns.svc"
PORT = {"name": "https", "port": 8443}
READY = {"addresses": [{"ip": "10.0.0.7"}], "ports": [PORT]}


class Recording:
    """Allows everything, and keeps the client configurations."""

    def __init__(self) -> None:
        self.configs: list[Raw] = []

    async def call(self, webhook: Raw, review: Raw) -> Raw:
        """Allow."""
        self.configs.append(webhook["clientConfig"])
        response = {"uid": review["request"]["uid"], "allowed": True}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


async def called_at(engine: Engine, hooks: Recording, config: Raw) -> tuple[str, str | None]:
    """Where a webhook with this configuration is called."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    webhook = {
        "name": "one.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": config,
        "rules": [rule],
    }
    kind = kind_of(engine, "validatingwebhookconfigurations", "admissionregistration.k8s.io")
    await engine.create(kind, "", {"metadata": {"name": "hooks"}, "webhooks": [webhook]}, Call())
    await engine.create(kind_of(engine, "configmaps"), "default", config_map("a"), Call())
    return address_of(hooks.configs[-1])


@pytest.mark.parametrize(
    ("subsets", "port", "url"),
    [
        ([READY], 443, "https://10.0.0.7:8443/validate"),
        ([READY], None, "https://10.0.0.7:8443/validate"),
        ([{**READY, "addresses": [{"ip": "fd00::7"}]}], 443, "https://[fd00::7]:8443/validate"),
        (
            [{"notReadyAddresses": [{"ip": "10.0.0.6"}], "ports": [PORT]}, READY],
            443,
            "https://10.0.0.7:8443/validate",
        ),
        (
            [{**READY, "ports": [{"name": "metrics", "port": 9}]}, READY],
            443,
            "https://10.0.0.7:8443/validate",
        ),
        ([READY], 9443, f"https://{NAME}:9443/validate"),
        ([{**READY, "addresses": []}], 443, f"https://{NAME}:443/validate"),
        ([], 443, f"https://{NAME}:443/validate"),
        (None, 443, f"https://{NAME}:443/validate"),
    ],
)
async def test_a_service_is_called_at_its_endpoints(
    subsets: list[Raw] | None, port: int | None, url: str
) -> None:
    """The first address that is ready, at the Service's port, or else the DNS name; the certificate has that name."""
    hooks = Recording()
    async with running_engine(webhooks=hooks) as engine:
        await engine.create(kind_of(engine, "namespaces"), "", {"metadata": {"name": "ns"}}, Call())
        spec = {
            "ports": [{"name": "metrics", "port": 80}, {"name": "https", "port": 443, "targetPort": 8443}]
        }
        service = {"metadata": {"name": "hook"}, "spec": spec}
        await engine.create(kind_of(engine, "services"), "ns", service, Call())
        if subsets is not None:
            endpoints = {"metadata": {"name": "hook"}, "subsets": subsets}
            await engine.create(kind_of(engine, "endpoints"), "ns", endpoints, Call())
        reference = {"namespace": "ns", "name": "hook", "path": "/validate"}
        config = {"service": reference | ({"port": port} if port else {})}
        assert await called_at(engine, hooks, config) == (url, NAME)


async def test_endpoints_without_their_service_are_nobodys() -> None:
    """Endpoints without a Service take no calls."""
    hooks = Recording()
    async with running_engine(webhooks=hooks) as engine:
        endpoints = {"metadata": {"name": "hook"}, "subsets": [READY]}
        await engine.create(kind_of(engine, "endpoints"), "default", endpoints, Call())
        config = {"service": {"namespace": "default", "name": "hook"}}
        assert await called_at(engine, hooks, config) == ("https://hook.default.svc:443/", "hook.default.svc")
