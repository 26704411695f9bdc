"""Sessions of several kernels: they start together, know each other, and end by a policy."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.embedded import Embedded

RANKED = """
import json, os, pathlib
names = ("SOKOVAN_RANK", "SOKOVAN_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT",
         "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "SOKOVAN_ROLE", "SOKOVAN_HOSTS")
given = {name: os.environ[name] for name in names}
print(json.dumps({**given, "hostfile": pathlib.Path(os.environ["SOKOVAN_HOSTFILE"]).read_text()}))
"""
# They meet at MASTER_ADDR; rank 0 waits there for the others.
MEETS = """
import os, socket, time
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if rank == 0:
    with socket.create_server(place) as door:
        came = sorted(int(door.accept()[0].recv(8)) for _ in range(size - 1))
    print("met", came)
else:
    for _ in range(600):
        try:
            with socket.create_connection(place) as other:
                other.sendall(str(rank).encode())
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    else:
        raise SystemExit("no connection")
"""
BY_RANK = """
import os, pathlib, time
rank = int(os.environ["RANK"])
print("rank", rank, flush=True)
if rank == FIRST:
    raise SystemExit(CODE)
time.sleep(600)
"""


def ends_by_rank(first: int, code: int) -> str:
    """One kernel ends, the others would go on for ever."""
    return BY_RANK.replace("FIRST", str(first)).replace("CODE", str(code))


def test_four_kernels_know_their_ranks_and_where_to_meet(server: Embedded) -> None:
    session = server.python(RANKED, size=4)
    assert server.settles(session)["result"] == "success"
    outputs = [json.loads(server.output(session, rank)) for rank in range(4)]
    for rank, one in enumerate(outputs):
        assert [one[name] for name in ("RANK", "SOKOVAN_RANK", "OMPI_COMM_WORLD_RANK")] == [str(rank)] * 3
        assert [one[name] for name in ("WORLD_SIZE", "SOKOVAN_SIZE", "OMPI_COMM_WORLD_SIZE")] == ["4"] * 3
        assert one["LOCAL_RANK"] == "0"
        assert one["SOKOVAN_ROLE"] == ("main" if rank == 0 else "sub")
        assert one["hostfile"] == "127.0.0.1 slots=4\n"
    assert len({(one["MASTER_ADDR"], one["MASTER_PORT"]) for one in outputs}) == 1


def test_kernels_meet_at_the_master_address(server: Embedded) -> None:
    session = server.python(MEETS, size=4)
    assert server.settles(session)["result"] == "success"
    assert server.output(session, 0) == "met [1, 2, 3]\n"


def test_groups_have_sizes_and_commands_of_their_own(server: Embedded) -> None:
    says = ["python", "-c", "import os; print(os.environ['SOKOVAN_ROLE'], os.environ['RANK'])"]
    groups = [{"name": "chief", "size": 1, "command": says}, {"name": "worker", "size": 2, "command": says}]
    session = server.submit(groups=groups)["id"]
    assert server.settles(session)["result"] == "success"
    said = [server.output(session, rank).split() for rank in range(3)]
    assert [(role, int(rank)) for role, rank in said] == [("chief", 0), ("worker", 1), ("worker", 2)]


def test_one_kernel_that_fails_ends_the_whole_session(server: Embedded) -> None:
    session = server.python(ends_by_rank(2, 5), size=3)
    ended = server.settles(session)
    assert (ended["result"], ended["reason"]) == ("failure", "kernel-failed")
    assert "kernel 2 ended with code 5" in ended["reason_detail"]
    assert [kernel["exit_code"] for kernel in ended["kernels"]] == [143, 143, 5]


def test_failures_are_tolerated_where_that_is_asked_for(server: Embedded) -> None:
    script = "import os; raise SystemExit(int(os.environ['RANK']) % 2)"
    ended = server.settles(server.python(script, size=3, tolerates_failures=True, ends_with="all"))
    assert [kernel["exit_code"] for kernel in ended["kernels"]] == [0, 1, 0]
    assert ended["reason"] != "user-requested"


@pytest.mark.parametrize(("policy", "first"), [("main", 0), ("any", 1)])
def test_a_session_ends_with_the_kernel_that_its_policy_names(server: Embedded, policy: str, first: int) -> None:
    session = server.python(ends_by_rank(first, 0), size=3, ends_with=policy)
    ended = server.settles(session)
    assert (ended["result"], ended["reason"]) == ("success", "completed")
    codes = [kernel["exit_code"] for kernel in ended["kernels"]]
    assert codes == [0 if rank == first else 143 for rank in range(3)]


def test_a_session_that_ends_with_all_goes_on_until_the_last(server: Embedded) -> None:
    waits = "import os, pathlib, time\nwhile os.environ['RANK'] == '1' and not pathlib.Path('go').exists():\n"
    session = server.python(f"{waits}    time.sleep(0.01)\nprint('over')", size=2, ends_with="all", name="patient")
    server.says(session, "over", kernel=0)
    # The first may be over before the second has begun.
    server.reaches(session, "running")
    assert server.cli("exec", "patient", "--kernel", "1", "--", "touch", "go").returncode == 0
    ended = server.settles(session)
    assert [kernel["exit_code"] for kernel in ended["kernels"]] == [0, 0]
    assert ended["result"] == "success"


def test_logs_of_a_gang_bear_the_ranks_and_can_be_had_one_by_one(server: Embedded) -> None:
    says = "import os; print(os.environ['RANK'])"
    done = server.cli("run", "--size", "3", "--cpus", "0.1", "--name", "chorus", "--", "python", "-c", says)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] {rank}" for rank in range(3)]
    assert server.cli("logs", "chorus", "--kernel", "2").stdout == "2\n"
    assert sorted(server.cli("logs", "chorus").stdout.splitlines()) == [f"[{rank}] {rank}" for rank in range(3)]


def test_a_gang_that_fits_only_in_part_does_not_start_at_all(server: Embedded) -> None:
    answer = server.api("GET", "/agents")
    assert answer.status_code == 200, answer.text
    [agent] = answer.json()["items"]
    half = {"cpu": (agent["slots"]["cpu"] // 2 + 1) / 1000, "mem": "64MiB"}
    session = server.python("pass", size=2, resources=half, name="half")
    why = server.cli_json("why", "half")
    assert why["status"].lower() == "pending"
    assert {kernel["status"] for kernel in server.session(session)["kernels"]} == {"pending"}
    server.end(session)


def test_a_stop_ends_every_kernel_of_a_gang(server: Embedded) -> None:
    session = server.python(ends_by_rank(-1, 0), size=4)
    for rank in range(4):
        server.says(session, f"rank {rank}", kernel=rank)
    server.end(session)
    assert [kernel["exit_code"] for kernel in server.settles(session)["kernels"]] == [143] * 4
