"""Groups of devices by the driver's matrix, read as its program prints it."""

from __future__ import annotations

from pathlib import Path

from sokovan.agent.devices.nvidia_topology import device_closeness, read_matrix

FOUR = ("a", "b", "c", "d")


def matrix(*rows: str, numa: str = "") -> str:
    """The text for cells that are given by row; with the NUMA node of each device."""
    names = [f"GPU{number}" for number in range(len(rows))]
    lines = ["\t" + "\t".join([f"\x1b[4m{names[0]}", *names[1:], "NIC0", "CPU Affinity", "NUMA Affinity\x1b[0m"])]
    for number, row in enumerate(rows):
        lines.append("\t".join([names[number], *row.split(), "SYS", "0-15", numa[number : number + 1] or "N/A"]))
    return "\n".join([*lines, "NIC0\t" + "SYS\t" * len(rows) + " X ", "", "Legend:", "", "  X    = Self"])


def test_devices_with_a_link_of_their_own_are_a_group() -> None:
    text = matrix("X NODE NV12 SYS", "NODE X SYS NV12", "NV12 SYS X NODE", "SYS NV12 NODE X", numa="0011")
    assert read_matrix(text, FOUR) == {
        "nvlink0": {"a", "c"},
        "nvlink1": {"b", "d"},
        "numa0": {"a", "b"},
        "numa1": {"c", "d"},
    }


def test_where_all_are_linked_switches_and_nodes_are_the_groups() -> None:
    eight = tuple("abcdefgh")
    rows = [" ".join("X" if row == to else "NV18" for to in range(8)) for row in range(8)]
    found = read_matrix(matrix(*rows, numa="00001111"), eight)
    assert found == {"numa0": set("abcd"), "numa1": set("efgh")}
    switched = read_matrix(matrix("X PIX SYS SYS", "PIX X SYS SYS", "SYS SYS X PXB", "SYS SYS PXB X"), FOUR)
    assert switched == {"pcie0": {"a", "b"}, "pcie1": {"c", "d"}}


def test_parts_of_linked_devices_on_one_node_are_closer_than_all_of_them() -> None:
    rows = [
        " ".join("X" if row == to else "NV4" if row // 4 == to // 4 else "SYS" for to in range(8)) for row in range(8)
    ]
    found = read_matrix(matrix(*rows, numa="00112233"), tuple("abcdefgh"))
    assert {frozenset("ab"), frozenset("cd")} <= {found[name] for name in found if name.startswith("nvlink-part")}
    assert found["nvlink0"] == set("abcd")


def test_the_output_of_a_machine_with_one_device_and_other_text_have_no_groups() -> None:
    one = "\t\x1b[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\nGPU0\t X \t0-15\t0\t\tN/A\n\nLegend:\n"
    assert read_matrix(one, ("a",)) == {}
    assert read_matrix(one, FOUR) == {}
    for text in ("", "Failed to initialize NVML", "\tGPU0\tGPU1\nGPU0\tX\nGPU1\n"):
        assert read_matrix(text, ("a", "b")) == {}


def test_the_program_is_asked_only_for_several_devices(tmp_path: Path) -> None:
    file = tmp_path / "nvidia-smi"
    file.write_text('#!/bin/sh\necho "$@" > "$0.asked"\nprintf "\\tGPU0\\tGPU1\\nGPU0\\tX\\tSYS\\nGPU1\\tSYS\\tX\\n"\n')
    file.chmod(0o755)
    assert device_closeness(["a"], str(tmp_path)) == {}
    assert not (tmp_path / "nvidia-smi.asked").exists()
    assert device_closeness(["a", "b"], str(tmp_path)) == {}
    assert (tmp_path / "nvidia-smi.asked").read_text() == "topo -m\n"
    assert device_closeness(["a", "b"], str(tmp_path / "none")) == {}
