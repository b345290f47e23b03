"""How commands of address management end when something is wrong: one line, and an exit status that says what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

import click


class MalformedInput(click.ClickException):
    """The input can never be right; a refusal is a plain ClickException with exit status 1."""

    exit_code = 2


@contextmanager
def refusals(*, reading: bool = False) -> Iterator[None]:
    """Ends the command with the message of an IpamError or KubeError.

    While `reading` a cluster, what is malformed is there and not in the input.
    """
    from lanloom.ipam.rules.errors import IpamError, Malformed
    from lanloom.kube.errors import KubeError

    try:
        yield
    except (IpamError, KubeError) as error:
        wrong_input = isinstance(error, Malformed) and not reading
        raise (MalformedInput if wrong_input else click.ClickException)(str(error)) from None
