"""Who comes back when everything is decided."""

import msgspec

from lanloom.api.dummy import ADMITTED
from lanloom.api.multus import NADS
from lanloom.dummy.rules.admitted import Admitted
from tests.dummy.manager.judge import Judge
from tests.dummy.manager.scene import PLACE, Scene, play
from tests.dummy.manager.troubled import ready


def test_who_is_let_back_in_when_the_nad_is_about_to_go_keeps_it() -> None:
    """A note that is written between the last look and the deletion holds the NAD until its user has come and gone."""

    async def story(each: Scene) -> None:
        judge = Judge(each.engine)
        client = await ready(each)
        note = Admitted("a", 0, each.now() + 75, "VirtualMachineInstance vms/vm")
        text = msgspec.json.encode([note]).decode()
        let_in = {"metadata": {"annotations": {ADMITTED: text}}}
        client.before["delete", NADS.plural] = lambda: each.client.patch(NADS, "isolated", let_in, PLACE)
        await each.delete()
        await each.rest()
        dcn = await each.get()
        assert (dcn.status.phase, "VirtualMachineInstance vms/vm" in dcn.status.message) == (
            "DeletionBlocked",
            True,
        )
        await each.add_machine()
        await each.rest(100)
        assert (await each.get()).status.users == (f"VirtualMachine {PLACE}/vm",)
        assert await each.nad() is not None
        await each.remove_machine()
        await each.rest()
        assert await each.is_gone()
        assert judge.wrong == []

    play(story, "n1")
