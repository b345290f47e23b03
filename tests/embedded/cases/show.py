"""Show what servers answer to cases: `python -m tests.embedded.cases.show [real|embedded|differences] PATTERN…`.

For developers of the embedded server who want to see what the real one does, or where the two differ without
being allowed to, without a test in between.
"""

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path

import tests.embedded.cases.areas  # noqa: F401 - registers the cases
from lanloom_lab.assets import default_cache
from tests.embedded.cases.kit.compare import compared
from tests.embedded.cases.kit.ground import Ground, ScriptFailed, embedded_server, endpoint
from tests.embedded.cases.kit.hooks import (
    hook_server,
)
from tests.embedded.cases.kit.intended import (
    Differences,
    known_version,
    load,
    unlisted_and_stale,
)
from tests.embedded.cases.kit.normal import normalise
from tests.embedded.cases.kit.suite import REGISTER, Case
from tests.embedded.cases.kit.wire import Wire
from tests.harness.servers.build import binaries
from tests.harness.servers.real import RealServer


def main() -> None:
    """Run the cases that match, and print their normalised transcripts or their differences."""
    arguments = _parser().parse_args()
    cases = [case for case in REGISTER.values() if any(fnmatchcase(case.name, p) for p in arguments.pattern)]
    with ExitStack() as stack:
        grounds: dict[str, Ground] = {}
        version = ""
        if arguments.what != "embedded":
            server = real_server(stack)
            version = known_version(server.version())
            grounds["real"] = ground(stack, server.kubeconfig)
        if arguments.what != "real":
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            grounds["embedded"] = ground(stack, stack.enter_context(embedded_server(directory)))
        for case in cases:
            try:
                text = (
                    _differences(case, grounds, load(), version)
                    if arguments.what == "differences"
                    else _transcript(case, grounds[arguments.what], strict=arguments.what == "real")
                )
            except (AssertionError, ScriptFailed) as error:
                text = f"The case does not go as it means to: {error}"
            if text:
                print(f"## {case.name}: {case.behaviour}\n{text}", flush=True)


def _transcript(case: Case, ground: Ground, *, strict: bool) -> str:
    return json.dumps(normalise(ground.run(case, strict=strict)), indent=1)


def _differences(case: Case, grounds: dict[str, Ground], listed: Differences, version: str) -> str:
    found = compared(
        lambda: grounds["real"].run(case, strict=True), lambda: grounds["embedded"].run(case, strict=False)
    )
    unlisted, stale = unlisted_and_stale(case.name, found, listed, version)
    return "\n".join([*map(str, unlisted), *(f"listed, but did not occur: {pattern}" for pattern in stale)])


def real_server(stack: ExitStack) -> RealServer:
    """Start the real kube-apiserver, which ends with the stack."""
    directory = binaries(default_cache(), lambda line: print(line, file=sys.stderr))
    return stack.enter_context(RealServer(directory, ("garbagecollector", "namespace")))


def ground(stack: ExitStack, kubeconfig: Path) -> Ground:
    """Make a server ready for cases."""
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    wire = Wire(endpoint(kubeconfig))
    stack.callback(wire.close)
    made = Ground(wire, stack.enter_context(hook_server(scratch)))
    made.prepare()
    return made


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Show what servers answer to cases.")
    parser.add_argument("what", choices=["real", "embedded", "differences"], help="what to show")
    parser.add_argument("pattern", nargs="+", help="names of cases, with * and ?")
    return parser


if __name__ == "__main__":
    main()
