"""The embedded API server as a user starts it: `lanloom serve` in a process of its own, over HTTPS."""

import base64
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.apiserver.cases.kit.wire import Endpoint

STOP_PATIENCE = 20
ALICE = "a-user-of-the-tests"


@contextmanager
def embedded_server(directory: Path, more_tokens: str = "") -> Iterator[Path]:
    """A running server with its data in `directory`; yields its kubeconfig.

    `more_tokens` are lines of a token file besides that of alice.
    """
    kubeconfig = directory / "kubeconfig"
    tokens = directory / "tokens.csv"
    tokens.write_text(f'{ALICE},alice,alice,"testers"\n{more_tokens}')
    command = [sys.executable, "-m", "lanloom.cli", "serve", "--data", str(directory / "data.sqlite")]
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
    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    host, _, port = cluster["server"].removeprefix("https://").partition(":")
    ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    token = config["users"][0]["user"]["token"]
    return Endpoint(host=host, port=int(port), ca=ca, tokens={"admin": token, "alice": alice})
