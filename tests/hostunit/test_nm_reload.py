"""What the unit's script makes of NetworkManager's words, on any version of bash; the rest is tested in the lab."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lanloom.hostunit import host_files

PROFILE = """[connection]
id=data-vlan100
uuid=11111111-0000-4000-8000-000000000001
interface-name=data-br.100

[ipv4]
address1=192.168.1.{host}/24

[user]
lanloom.owner=data/100
"""

NMCLI = """() {
    case "$*" in
        *'RUNNING general') echo running ;;
        *'connection show --active') printf '%s:%s\\n' 22222222-0000-4000-8000-000000000002 "$DEVICE" ;;
    esac
}"""
"""NetworkManager with one active profile that is not Lanloom's, on the device $DEVICE."""


@pytest.mark.slow
def test_a_device_with_a_hostile_name_does_nothing(tmp_path: Path) -> None:
    """A device's name is no text of a program, also where bash would expand a subscript twice (before 5.2)."""
    script, profiles, trap = tmp_path / "nm-reload", tmp_path / "profiles", tmp_path / "trap"
    script.write_bytes(host_files()[0].content)
    profiles.mkdir()
    bash = shutil.which("bash")
    assert bash is not None
    environment = os.environ | {
        "BASH_COMPAT": "51",
        "BASH_FUNC_nmcli%%": NMCLI,
        "DEVICE": f"x$(touch {trap})",
    }
    said = ""
    for host in (1, 2):
        (profiles / "data-vlan100.nmconnection").write_text(PROFILE.format(host=host))
        done = subprocess.run(
            [bash, script, profiles, tmp_path / "memory"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        said += done.stderr
    assert "0 new, 1 edited and 0 removed" in said
    assert not trap.exists()
