"""The options of the agent in whose container a command runs, by which it looks where that agent looks.

`kubectl exec` starts a command alongside the first process of a container. Where that is an agent, its directories are
mounts under other names than on the host.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

FIRST_PROCESS = Path("/proc/1/cmdline")


def agent_options(cmdline: bytes) -> Mapping[str, Any]:
    """Return the options of an agent with this command line, by their names; empty for another program's.

    `cmdline` is as in /proc, with a NUL behind each word.
    """
    words = cmdline.decode(errors="replace").split("\0")[:-1]
    after = _after_command(words)
    if after is None:
        return {}
    from lanloom.processes.cli.agent import command

    # An agent of another version may have options that are not known here.
    ctx = command.make_context(
        "agent", after, resilient_parsing=True, ignore_unknown_options=True, allow_extra_args=True
    )
    with ctx:
        return dict(ctx.params)


def _after_command(words: list[str]) -> list[str] | None:
    """Return what follows `lanloom agent`; None where it is another command."""
    named = [index for index, word in enumerate(words) if Path(word).name == "lanloom"]
    if not named or words[named[0] + 1 : named[0] + 2] != ["agent"]:
        return None
    return words[named[0] + 2 :]


def running_agent(path: Path = FIRST_PROCESS) -> Mapping[str, Any]:
    """Return the options of the agent that is the first process here; empty if another one is."""
    try:
        return agent_options(path.read_bytes())
    except OSError:
        return {}


def adopted(ctx: click.Context, running: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the running agent's values of those of these options that the user did not give."""
    default = click.core.ParameterSource.DEFAULT
    return {
        name: running[name]
        for name in names
        if running.get(name) is not None and ctx.get_parameter_source(name) is default
    }
