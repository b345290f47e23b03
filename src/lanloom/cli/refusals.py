"""How commands of address management end when something is wrong: one line, and an exit status that says what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

import click


class MalformedInput(click.ClickException):
    """The input can never be right; a refusal is a plain ClickException with exit status 1."""

    exit_code = 2


@contextmanager
def refusals() -> Iterator[None]:
    """Ends the command with the message of an IpamError or KubeError."""
    from lanloom.ipam.rules.errors import IpamError, Malformed
    from lanloom.kube.errors import KubeError

    try:
        yield
    except Malformed as error:
        raise MalformedInput(str(error)) from None
    except (IpamError, KubeError) as error:
        raise click.ClickException(str(error)) from None
