"""Show what a server answers to cases: `python -m tests.apiserver.cases.show [--embedded] PATTERN…`.

For whoever works on the embedded server and wants to see what the real one does, without a test in between.
"""

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path

import tests.apiserver.cases.areas  # noqa: F401 - registers the cases
from lanloom.lab.assets import default_cache
from tests.apiserver.cases.kit.embedded import embedded_server, endpoint
from tests.apiserver.cases.kit.ground import Ground, ScriptFailed
from tests.apiserver.cases.kit.hooks import hook_server
from tests.apiserver.cases.kit.normal import normalise
from tests.apiserver.cases.kit.suite import REGISTER
from tests.apiserver.cases.kit.wire import Wire
from tests.servers.build import binaries
from tests.servers.real import RealServer


def main() -> None:
    """Run the cases that match, print their normalised transcripts."""
    arguments = _parser().parse_args()
    cases = [case for case in REGISTER.values() if any(fnmatchcase(case.name, p) for p in arguments.pattern)]
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kubeconfig = _server(stack, scratch, arguments.embedded)
        ground = Ground(Wire(endpoint(kubeconfig)), stack.enter_context(hook_server(scratch)))
        ground.prepare()
        for case in cases:
            print(f"## {case.name}: {case.behaviour}")
            try:
                print(json.dumps(normalise(ground.run(case, strict=not arguments.embedded)), indent=1))
            except (AssertionError, ScriptFailed) as error:
                print(f"The case does not go as it means to: {error}")


def _server(stack: ExitStack, scratch: Path, embedded: bool) -> Path:
    if embedded:
        return stack.enter_context(embedded_server(scratch))
    directory = binaries(default_cache(), lambda line: print(line, file=sys.stderr))
    return stack.enter_context(RealServer(directory, ("garbagecollector", "namespace"))).kubeconfig


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Show what a server answers to cases.")
    parser.add_argument("--embedded", action="store_true", help="ask the embedded server, not the real one")
    parser.add_argument("pattern", nargs="+", help="names of cases, with * and ?")
    return parser


if __name__ == "__main__":
    main()
