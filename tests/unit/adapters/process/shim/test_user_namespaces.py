"""Two user namespaces: one to set up a sandbox, and one inside it with one account only."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sokovan.adapters.process.shim_launcher import light_command
from tests.kernels import needs_root

pytestmark = needs_root
BOOT = "from sokovan.adapters.process.shim.user_namespaces import main; main()"


def test_the_inner_one_has_the_account_only_and_the_outer_one_root_without_its_number() -> None:
    with subprocess.Popen(
        [*light_command(BOOT), "300000", "300001"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as helper:
        assert helper.stdout is not None
        said = b""
        while len(said.split(b" ")) < 3:
            said += helper.stdout.read(1)
        found = [Path(f"/proc/{int(pid)}/uid_map").read_text().split() for pid in said.split()]
        helper.communicate()
    inner, outer = sorted(found, key=len)
    assert inner == ["300001", "300001", "1"]
    assert outer == ["0", "300000", "1", "1", "0", "1", "300001", "300001", "1"]
    assert helper.returncode == 0
