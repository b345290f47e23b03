"""What every case finds on a server: the shared CRDs, and a namespace of its own."""

import base64
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import yaml

from lanloom.processes.definitions import manifests
from tests.embedded.cases.kit.hooks import (
    Hooks,
)
from tests.embedded.cases.kit.objects import Raw, namespace, shared_crds
from tests.embedded.cases.kit.script import Api, slug
from tests.embedded.cases.kit.suite import Case
from tests.embedded.cases.kit.wire import Endpoint, Json, Wire

STOP_PATIENCE = 60
ALICE = "a-user-of-the-tests"


@contextmanager
def embedded_server(directory: Path, more_tokens: str = "") -> Iterator[Path]:
    """A running server with its data in `directory`; yields its kubeconfig.

    `more_tokens` are lines of a token file besides that of alice.
    """
    kubeconfig = directory / "kubeconfig"
    tokens = directory / "tokens.csv"
    tokens.write_text(f'{ALICE},alice,alice,"testers"\n{more_tokens}')
    command = [sys.executable, "-m", "lanloom", "serve", "--data", str(directory / "data.sqlite")]
    command += ["--kubeconfig", str(kubeconfig), "--token-auth-file", str(tokens), "--no-manager"]
    with (directory / "serve.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready, f"`lanloom serve` did not start: {(directory / 'serve.log').read_text()[-3000:]}"
        yield kubeconfig
    finally:
        process.terminate()
        try:
            process.wait(STOP_PATIENCE)
        finally:
            process.kill()
            process.wait()


def endpoint(kubeconfig: Path, alice: str = ALICE) -> Endpoint:
    """The server and the administrator that a kubeconfig names, and alice, who has no role."""
    config = yaml.load(kubeconfig.read_text(), yaml.CSafeLoader)
    cluster = config["clusters"][0]["cluster"]
    host, _, port = cluster["server"].removeprefix("https://").partition(":")
    ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    token = config["users"][0]["user"]["token"]
    return Endpoint(host=host, port=int(port), ca=ca, tokens={"admin": token, "alice": alice})


PREPARATION_SECONDS = 120.0
"""Until a server is given up that is not ready for cases."""

_DESCRIBED = {"com.example.v1.Widget", "com.example.v1.Gadget", "io.harvesterhci.network.v1beta1.VlanConfig"}
"""Definitions of custom kinds in the OpenAPI document, which the real server renews a moment later."""


def _is_discovered(api: Api, crd: Raw) -> bool:
    """Whether a kind is served and listed in every document of discovery, each of which comes at a time of its own."""
    spec = crd["spec"]
    group, plural = spec["group"], spec["names"]["plural"]
    versions = {version["name"] for version in spec["versions"] if version["served"]}
    groups = {each["name"]: each for each in api.get("/apis").body["groups"]}
    document = api.get(f"/apis/{group}", expect=-1)
    if document.status != 200 or group not in groups:
        return False
    served = [{each["version"] for each in found["versions"]} for found in (groups[group], document.body)]
    return all(versions <= found for found in served) and all(
        _is_served(api, f"/apis/{group}/{version}", plural) for version in versions
    )


def _is_served(api: Api, path: str, plural: str) -> bool:
    document = api.get(path, expect=-1)
    return (
        document.status == 200
        and plural in {each["name"] for each in document.body["resources"]}
        and api.get(f"{path}/{plural}", expect=-1).status == 200
    )


class ScriptFailed(Exception):
    """A case could not go on: an answer lacked what the next request needs."""


class Ground:
    """One server, ready for cases."""

    def __init__(self, wire: Wire, hooks: Hooks) -> None:
        self._wire = wire
        self._hooks = hooks

    def prepare(self) -> None:
        """Install the shared CRDs and Lanloom's own, and wait until they are served, discovered and described."""
        api = Api(self._wire, self._hooks, "default")
        api.strict = True
        for crd in shared_crds():
            api.post("customresourcedefinitions", crd)
        for crd in manifests():
            # The embedded server has them from its start.
            api.post("customresourcedefinitions", crd, expect=-1)
        for crd in (*shared_crds(), *manifests()):
            self._await("served and discovered", partial(_is_discovered, api, crd))
        self._await("described", lambda: api.get("/openapi/v2").body["definitions"].keys() >= _DESCRIBED)

    def _await(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PREPARATION_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise ScriptFailed(f"the shared CRDs were not {what} in time")
            time.sleep(0.1)

    def namespace(self, name: str) -> Api:
        """Make a namespace, and return a view of the server for a case in it."""
        api = Api(self._wire, self._hooks, name)
        with api.quietly():
            api.post("namespaces", namespace(name, labels={"case": name}), expect=-1)
        return api

    def run(self, case: Case, *, strict: bool) -> list[Json]:
        """Run a case and return its transcript. A strict run raises when the case doesn't go as it means to."""
        api = self.namespace(slug(case.name))
        api.strict = strict
        try:
            case.run(api)
        except (LookupError, TypeError, ValueError, OSError) as error:
            if strict:
                raise ScriptFailed(f"{case.name} could not go on: {error!r}") from error
            # The other server went on, so the transcripts differ here; what was answered before tells why.
            api.transcript.append({"step": "the script could not go on", "error": repr(error)})
        return api.transcript
