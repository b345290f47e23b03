"""What the kernel of a fake host does for the steps of isolated bridges."""

from lanloom.features.dummy.rules.hostbridge import EnsureIsolatedBridge, RemoveIsolatedBridge, alias_of
from lanloom.node.marks import unfinished_name
from tests.fakes.kernel import FakeKernel, apply


@apply.register
def _ensure(step: EnsureIsolatedBridge, kernel: FakeKernel) -> None:
    if step.name not in kernel.links:
        kernel.delete(unfinished_name(step.owner))
        kernel.make(step.name, "bridge", alias_of(step.owner))
        for port in step.lost_ports(kernel.links):
            kernel.join(port.name, step.name)
    kernel.change(
        step.name,
        alias=alias_of(step.owner),
        ipv4_strict=True,
        forwarding=step.forwards_ipv4,
        link_local=False,
    )
    if not kernel.links[step.name].up:
        kernel.set_up(step.name)
    _give_addresses(step, kernel)
    kernel.set_ingress(step.name, step.ingress)


def _give_addresses(step: EnsureIsolatedBridge, kernel: FakeKernel) -> None:
    for former in set(kernel.links[step.name].given) - set(step.addresses):
        if ":" not in former:
            kernel.change(step.name, promotes=True)
            kernel.remove_address(step.name, former)
    link = kernel.links[step.name]
    had = {*link.addresses, *link.addresses6}
    given = (set(link.given) | set(step.addresses) - had) & set(step.addresses)
    new = [each for each in step.addresses if each not in had]
    kept6 = (each for each in link.addresses6 if each not in link.given or each in given)
    kernel.change(
        step.name,
        addresses=(*link.addresses, *(each for each in new if ":" not in each)),
        addresses6=(*kept6, *(each for each in new if ":" in each)),
        given=tuple(sorted(given)),
    )


@apply.register
def _remove(step: RemoveIsolatedBridge, kernel: FakeKernel) -> None:
    kernel.set_ingress(step.name, frozenset())
    kernel.delete(step.name)
