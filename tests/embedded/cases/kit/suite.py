"""The register of all cases.

A case is a function that takes an `Api` (or a `Kubectl`) and makes requests. Its docstring is one sentence of
required behaviour. The answers are what is compared; a case itself says only which statuses it means to see, so
that no case can pass because both servers refused it for a reason of no interest.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

Script = Callable[..., None]


class Case(Struct, frozen=True, kw_only=True):
    """One case; `name` is `area.function[variant]`."""

    name: str
    behaviour: str
    script: Script
    arguments: tuple[Any, ...] = ()

    def run(self, subject: Any) -> None:
        """Make the case's requests; `subject` is an `Api`, or the kubectl of the acceptance cases."""
        self.script(subject, *self.arguments)


REGISTER: dict[str, Case] = {}
KUBECTL_REGISTER: dict[str, Case] = {}


class Area:
    """Registers the cases of one module: `@case`, or `@case.each(...)` for variants of one behaviour."""

    def __init__(self, name: str, register: dict[str, Case] = REGISTER) -> None:
        self._name = name.rpartition(".")[2]
        self._register = register

    def __call__(self, script: Script) -> Script:
        """Register one case."""
        self._add(script, "", ())
        return script

    def each(self, variants: Mapping[str, Any] | Iterable[str]) -> Callable[[Script], Script]:
        """Register a case for each variant; a mapping gives each its name, and a tuple is spread over the arguments."""
        named = variants if isinstance(variants, Mapping) else {variant: variant for variant in variants}

        def register(script: Script) -> Script:
            for name, value in named.items():
                self._add(script, f"[{name}]", value if isinstance(value, tuple) else (value,))
            return script

        return register

    def _add(self, script: Script, variant: str, arguments: tuple[Any, ...]) -> None:
        name = f"{self._name}.{script.__name__}{variant}"
        if name in self._register or not script.__doc__:
            raise ValueError(f"case {name} is registered already, or has no docstring")
        self._register[name] = Case(
            name=name,
            behaviour=script.__doc__,
            script=script,
            arguments=arguments,
        )
