"""A gang over two machines that have joined by token: one rack, its hosts and ports, a clean end."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

from tests.acceptance.embedded import Embedded, until
from tests.acceptance.endings import ended_well
from tests.acceptance.machines import Machine, join_words, link, machine
from tests.kernels import relatives

# The machines by name, with their address and their rack; the first one is alone in its rack.
HOSTS = {"a0": ("127.0.0.6", "r02"), "a1": ("127.0.0.7", "r01"), "a2": ("127.0.0.8", "r01")}
# More than half of a machine: one kernel each.
SHARE = 0.6
# Each says what it was told; rank 1 comes to rank 0, at the address and the port that both were told.
MEETS = """
import json, os, pathlib, socket, time
names = ("SOKOVAN_RANK", "SOKOVAN_SIZE", "SOKOVAN_HOSTS", "MASTER_ADDR", "MASTER_PORT")
told = {name: os.environ.get(name) for name in names}
told["hostfile"] = pathlib.Path(os.environ["SOKOVAN_HOSTFILE"]).read_text()
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if told["SOKOVAN_RANK"] == "0":
    with socket.create_server(place) as door:
        told["came"] = door.accept()[0].recv(8).decode()
else:
    for _ in range(600):
        try:
            with socket.create_connection(place) as other:
                other.sendall(told["SOKOVAN_RANK"].encode())
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    else:
        raise SystemExit("no connection")
print(json.dumps(told))
"""


def joined(server: Embedded, name: str, made: Machine) -> None:
    """Join a machine whose token grants its address and its rack."""
    address, rack = HOSTS[name]
    made.run(*join_words(server, "--label", f"address={address}", "--label", f"rack={rack}"), "--name", name)
    until(lambda: link(server, name) == (True, "alive"), what=f"{name} is linked", tell=lambda: made.said)


def test_a_gang_over_two_joined_machines_of_one_rack_meets_and_ends_clean(tmp_path: Path) -> None:
    server = Embedded(tmp_path / "manager")
    with ExitStack() as stack:
        machines = {name: stack.enter_context(machine(tmp_path / name)) for name in HOSTS}
        stack.enter_context(ended_well(server))
        server.start("--no-agent", "--listen", "127.0.0.2:0")
        for name, made in machines.items():
            joined(server, name, made)
        assert server.cli("topology", "apply", "-f", "-", stdin="tiers: [rack]\n").returncode == 0
        agents = server.cli_json("agent", "ls")
        assert [(one["labels"]["sokovan.link"], one["unapproved"]) for one in agents] == [("certificate", [])] * 3

        most = min(one["slots"]["cpu"] for one in agents)
        resources = {"cpu": most * SHARE / 1000, "mem": "64MiB"}
        session = server.python(MEETS, size=2, topology="hard:rack", resources=resources)
        ended = server.settles(session)
        assert ended["result"] == "success", (ended, [made.said for made in machines.values()])
        places = [kernel["agent"] for kernel in sorted(ended["kernels"], key=lambda one: one["rank"])]
        assert sorted(places) == ["a1", "a2"]

        # Both were told the same hosts, in the order of their ranks, and met at the first one.
        told = [json.loads(server.output(session, rank)) for rank in range(2)]
        hosts = [HOSTS[place][0] for place in places]
        assert [(one["SOKOVAN_RANK"], one["SOKOVAN_SIZE"]) for one in told] == [("0", "2"), ("1", "2")]
        assert {one["MASTER_ADDR"] for one in told} == {hosts[0]}
        assert len({one["MASTER_PORT"] for one in told}) == 1
        assert {one["SOKOVAN_HOSTS"] for one in told} == {",".join(hosts)}
        assert {one["hostfile"] for one in told} == {"".join(f"{host} slots=1\n" for host in hosts)}
        assert told[0]["came"] == "1"

        # Three kernels of that size do not fit in the rack, and none of them starts.
        waits = server.python(MEETS, size=3, topology="hard:rack", resources=resources)
        until(lambda: "rack" in server.cli("why", waits).stdout, what="why names the rack")
        assert {kernel["status"] for kernel in server.session(waits)["kernels"]} == {"pending"}
        server.end(waits)

        for one in server.cli_json("agent", "ls"):
            assert not any(one["used"].values()), one
        until(lambda: not [pid for made in machines.values() for pid in relatives(made.kernels)], what="none is left")
