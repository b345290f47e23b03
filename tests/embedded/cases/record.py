"""Record what a real kube-apiserver answers to the cases: `python -m tests.embedded.cases.record [PATTERN…]`.

The server is the one whose directory KUBEBUILDER_ASSETS names. Cases that match no pattern keep their recorded answers.
"""

import argparse
from contextlib import ExitStack
from fnmatch import fnmatchcase

import tests.embedded.cases.areas  # noqa: F401 - registers the cases
from tests.embedded.cases.kit.normal import normalise
from tests.embedded.cases.kit.recorded import RECORDED, read, write
from tests.embedded.cases.kit.suite import REGISTER
from tests.embedded.cases.show import ground, real_server


def main() -> None:
    """Run the cases that match on the server, and write their transcripts to the folder of its version."""
    parser = argparse.ArgumentParser(description="Record what a real kube-apiserver answers to cases.")
    parser.add_argument("pattern", nargs="*", default=["*"], help="names of cases, with * and ?")
    patterns = parser.parse_args().pattern
    with ExitStack() as stack:
        server = real_server(stack)
        directory = RECORDED / server.version()
        transcripts = read(directory)
        real = ground(stack, server.kubeconfig)
        for name, case in REGISTER.items():
            if any(fnmatchcase(name, pattern) for pattern in patterns):
                transcripts[name] = normalise(real.run(case, strict=True))
    write(directory, {name: transcripts[name] for name in REGISTER if name in transcripts})


if __name__ == "__main__":
    main()
