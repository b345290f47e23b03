"""The register of all cases.

A case is a function that takes an `Api` and makes requests. Its docstring is one sentence of required behaviour. The
answers are what is compared; a case itself says only which statuses it means to see, so that no case can pass because
both servers refused it for a reason of no interest.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from tests.apiserver.cases.kit.script import Api

Script = Callable[..., None]


class Case(Struct, frozen=True, kw_only=True):
    """One case; `name` is `area.function[variant]`."""

    name: str
    behaviour: str
    script: Script
    arguments: tuple[Any, ...] = ()
    garbage_collector: bool = False

    def run(self, api: Api) -> None:
        """Make the case's requests."""
        self.script(api, *self.arguments)


REGISTER: dict[str, Case] = {}


class Area:
    """Registers the cases of one module: `@case`, or `@case.each(...)` for variants of one behaviour."""

    def __init__(self, name: str) -> None:
        self._name = name.rpartition(".")[2]

    def __call__(self, script: Script) -> Script:
        """Register one case."""
        self._add(script, "", ())
        return script

    def needing_gc(self, script: Script) -> Script:
        """Register one case that waits for the garbage collector."""
        self._add(script, "", (), garbage_collector=True)
        return script

    def each(self, variants: Mapping[str, Any] | Iterable[str]) -> Callable[[Script], Script]:
        """Register a case for each variant; a mapping gives each its name, and a tuple is spread over the arguments."""
        named = variants if isinstance(variants, Mapping) else {variant: variant for variant in variants}

        def register(script: Script) -> Script:
            for name, value in named.items():
                self._add(script, f"[{name}]", value if isinstance(value, tuple) else (value,))
            return script

        return register

    def _add(
        self, script: Script, variant: str, arguments: tuple[Any, ...], garbage_collector: bool = False
    ) -> None:
        name = f"{self._name}.{script.__name__}{variant}"
        if name in REGISTER or not script.__doc__:
            raise ValueError(f"case {name} is registered already, or has no docstring")
        REGISTER[name] = Case(
            name=name,
            behaviour=script.__doc__,
            script=script,
            arguments=arguments,
            garbage_collector=garbage_collector,
        )
