"""A feature is one object from which its CRDs, rights, flags, webhooks, controllers and commands follow.

A feature names its modules by text, `module:attribute`. So a process imports of each feature only what it runs, and
`lanloom --help` nothing at all. The processes loop over features and know none of them.
"""

import importlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lanloom.runtime.slimimports import without

with without("typing_extensions"):  # of which msgspec needs nothing that Python lacks, and which takes 0.5 MB
    from msgspec import Struct

if TYPE_CHECKING:
    from lanloom.kube.ports import Client
    from lanloom.runtime.blockers import DeletionQuestion
    from lanloom.runtime.rights import Rights
    from lanloom.runtime.trials import Facts, Trial
    from lanloom.runtime.webhooktable import Webhook


class CommandOptions(NamedTuple):
    """Options that a feature adds to a command: click's decorators, in the order of the help.

    `settings` makes the feature's setting from all values of the command.
    """

    options: Sequence[Callable[[Any], Any]]
    settings: Callable[[Mapping[str, Any]], Any]

    def decorate(self, function: Callable[..., Any]) -> Any:
        """Add the options to a function."""
        for option in reversed(self.options):
            function = option(function)
        return function


class Check(Struct, frozen=True, kw_only=True):
    """One finding of `lanloom doctor` or of a feature in a cluster.

    `remedy` is empty without a problem. What could not be looked at is unknown, and no problem.
    """

    name: str
    result: Literal["ok", "warning", "failed", "unknown"]
    found: str
    remedy: str = ""


class Feature(Struct, frozen=True, kw_only=True):
    """A feature, registered in `lanloom.features.FEATURES`.

    Each text is `module:attribute`, empty for a part that the feature does not have. `commands` are the words after
    `lanloom`: module with an object `command`, and the line in the help.
    """

    name: str
    rights: str = ""
    """A `Rights`: the kinds that the feature brings, and what its processes may do."""
    webhooks: str = ""
    """A tuple of `Webhook`: the requests that the API server sends, and the function for each."""
    after: tuple[str, ...] = ()
    """Features whose parts of a process are built before, because they provide what this one needs."""
    manager: str = ""
    """A function from `ManagerContext` to `ManagerPart`."""
    manager_options: str = ""
    """A `CommandOptions` of `lanloom manager`; the manager's part finds the result in `ManagerContext.setting`."""
    metrics: str = ""
    """Called with the manager's registry; the manager's part finds the result in `ManagerContext.metrics`."""
    agent: str = ""
    """A function from `AgentContext` to `AgentPart`."""
    agent_options: str = ""
    """A `CommandOptions` of `lanloom agent`; the agent's part finds the result in `AgentContext.setting`."""
    agent_metrics: str = ""
    """A `FeatureMetrics`, for `AgentContext.metrics`."""
    blockers: str = ""
    """A tuple of `DeletionQuestion`: what blocks the deletion of the feature's kinds, and of kinds that it uses."""
    checks: str = ""
    """A function from a `Client` to an awaitable of `Check`s: what `lanloom doctor` says of the cluster."""
    trials: str = ""
    """A function from `lanloom.runtime.trials.Facts` to `Trial`s: what `lanloom check` tries of the feature."""
    pages: str = ""
    """A tuple of `lanloom.console.page.Page`: what the console shows of the feature."""
    node: str = ""
    """A `lanloom.console.page.NodeView`: what the console shows of the feature on one node."""
    cni: tuple[str, ...] = ()
    """The names of CNI programs, which the agent's part answers (`AgentPart.cni`)."""
    cni_socket: str = ""
    """What distinguishes the socket of an agent whose programs all have one: such an agent runs alongside another."""
    cni_optional: bool = False
    """Whether an agent may run without answering the CNI programs, so that they are not needed."""
    commands: Mapping[str, tuple[str, str]] = {}


def load(reference: str) -> Any:
    """Return the object that `module:attribute` names."""
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)


def in_order(features: Sequence[Feature]) -> tuple[Feature, ...]:
    """Return the features in the order in which they are built: each after those that it names, if they are there."""
    waiting = list(features)
    ordered: list[Feature] = []
    while waiting:
        names = {feature.name for feature in waiting}
        ready = next((feature for feature in waiting if not names.intersection(feature.after)), None)
        if ready is None:
            raise ValueError(
                f"the features {', '.join(sorted(names))} depend on each other in a circle; correct Feature.after"
            )
        waiting.remove(ready)
        ordered.append(ready)
    return tuple(ordered)


def commands(features: Iterable[Feature]) -> dict[str, tuple[str, str]]:
    """Return the commands of the features by name: module, and line in the help."""
    return {name: entry for feature in features for name, entry in feature.commands.items()}


def rights_of(feature: Feature) -> "Rights":
    """Return the kinds and rights of a feature."""
    from lanloom.runtime.rights import Rights

    return load(feature.rights) if feature.rights else Rights()


def webhooks_of(features: Iterable[Feature]) -> "tuple[Webhook, ...]":
    """Return the rows of all features."""
    return tuple(row for feature in features if feature.webhooks for row in load(feature.webhooks))


def deletion_questions_of(features: Iterable[Feature]) -> "tuple[DeletionQuestion, ...]":
    """Return the questions of all features about deletions."""
    return tuple(question for feature in features if feature.blockers for question in load(feature.blockers))


def checks_of(features: Iterable[Feature]) -> "tuple[Callable[[Client], Awaitable[tuple[Check, ...]]], ...]":
    """Return what all features check in a cluster."""
    return tuple(load(feature.checks) for feature in features if feature.checks)


def pages_of(features: Iterable[Feature]) -> tuple[Any, ...]:
    """Return the pages of all features."""
    return tuple(page for feature in features if feature.pages for page in load(feature.pages))


def node_views_of(features: Iterable[Feature]) -> tuple[Any, ...]:
    """Return what the console shows of the features on one node."""
    return tuple(load(feature.node) for feature in features if feature.node)


def cni_socket(features: Iterable[Feature], socket: Path) -> Path:
    """Return where an agent listens that answers the CNI programs of these features, instead of at `socket`."""
    marks = {feature.cni_socket for feature in features if feature.cni}
    mark = min(marks, default="")
    return socket.with_name(f"{socket.stem}-{mark}{socket.suffix}") if mark else socket


def trials_of(features: Iterable[Feature], facts: "Facts") -> "tuple[Trial, ...]":
    """Return what is to be tried of all features in a cluster."""
    return tuple(trial for feature in features if feature.trials for trial in load(feature.trials)(facts))
