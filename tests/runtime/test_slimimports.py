"""What long-running processes leave out."""

import subprocess
import sys

import pytest

from lanloom.runtime.slimimports import without


def test_a_module_is_left_out_for_a_while() -> None:
    """Within the block an import fails as if the module weren't installed, and afterwards it works."""
    assert "this" not in sys.modules
    with without("this"), pytest.raises(ImportError):
        import this  # noqa: F401
    assert "this" not in sys.modules


def test_a_loaded_module_stays() -> None:
    """A module that is loaded already can be imported within the block and stays loaded."""
    with without("json"):
        import json
    assert sys.modules["json"] is json


def _python(program: str) -> str:
    """What a program prints in a Python of its own."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_reconciler_of_a_bridge_loads_little() -> None:
    """A process that keeps one bridge, of which a node runs many, loads no API client, D-Bus, TLS or pyroute2."""
    program = (
        "import sys; from lanloom.command import cli\n"
        "words = ['dummy', 'bridge', '--name', 'x-br', '--owner', 'x', '--state', 'absent']\n"
        "try: cli.main([*words, '--ready-file', '/nowhere/x/ready'], standalone_mode=False)\n"
        "except Exception as error: print(error)\n"
        "heavy = ('aiohttp', 'dbus_fast', 'ssl', '_hashlib', 'pyroute2', 'rich', 'cryptography', 'yaml')\n"
        "heavy += ('typing_extensions', 'greenlet')\n"
        "print(*(name for name in heavy if name in sys.modules))"
    )
    (complaint,) = _python(program).splitlines()
    assert complaint.startswith(
        "can't write the file /nowhere/x/ready: No such file or directory; its directory must"
    )


@pytest.mark.slow
def test_processes_that_log_json_do_not_load_rich() -> None:
    """An agent that starts, whatever it loads first, doesn't load rich, which would cost 4 MB on every node."""
    program = (
        "import sys; from lanloom.processes.cli.agent import command\n"
        "words = ['--node', 'x', '--kubeconfig', '/nowhere', '--cni-socket', '/nowhere/cni.sock']\n"
        "try: command.main(words, standalone_mode=False)\n"
        "except Exception as error: print(error)\n"
        "print(*(name for name in sys.modules if name.partition('.')[0] in ('rich', 'pygments')))"
    )
    complaint, *loaded = _python(program).splitlines()
    assert "/nowhere" in complaint and not loaded


@pytest.mark.slow
def test_commands_of_instances_do_not_load_the_allocator() -> None:
    """Who lists or changes instances waits for none of what only the manager needs."""
    program = (
        "import sys, lanloom.features.ipam.commands.instancechange, lanloom.features.ipam.commands.instanceviews\n"
        "print(*(name for name in sys.modules if name.startswith('lanloom.features.ipam.manager')))"
    )
    assert _python(program) == ""
