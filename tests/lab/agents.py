"""Taking the place of a node's agent for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.driver import Lab

_REPLACE = r"""
cat > /usr/local/bin/lanloom <<'END'
#!/bin/sh
exec {command} "$@"
END
for pid in $(pgrep -f '^python3 .* agent --node'); do kill -KILL $pid || true; done  # one may end with another
"""


def replace_agent(lab: Lab, node: str, command: str) -> None:
    """Lets the lab run another command in the place of `lanloom`, at once: it restarts what was killed."""
    lab.on(node, _REPLACE.format(command=command))


def restore_agent(lab: Lab, node: str) -> None:
    """Lets the lab run `lanloom` again."""
    replace_agent(lab, node, "python3 -m lanloom")


@contextmanager
def without_agent(lab: Lab, node: str) -> Iterator[None]:
    """A node whose agent has died; afterwards it has a new one."""
    replace_agent(lab, node, "python3 -c 'import signal; signal.pause()'")
    try:
        yield
    finally:
        restore_agent(lab, node)
