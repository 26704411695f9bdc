"""The filter of system calls is a valid program for both architectures."""

from __future__ import annotations

import struct

from sokovan.adapters.process.isolation.system_call_filter import DENIED, system_call_filter

ALLOWED = 0x7FFF0000
REFUSED = 0x00050001
MISSING = 0x00050026


def outcome(machine: str, architecture: int, number: int, *arguments: int) -> int:
    """Run the filter as the system would."""
    steps = list(struct.iter_unpack("=HBBI", system_call_filter(machine)))
    fields = {0: number, 4: architecture} | {16 + 8 * place: value for place, value in enumerate(arguments)}
    position, value = 0, 0
    while True:
        code, then, otherwise, operand = steps[position]
        position += 1
        match code:
            case 0x06:
                return int(operand)
            case 0x20:
                value = fields.get(operand, 0)
                continue
            case 0x15:
                holds = value == operand
            case 0x35:
                holds = value >= operand
            case _:
                holds = bool(value & operand)
        position += then if holds else otherwise


def test_each_denied_call_is_refused_and_common_ones_are_allowed() -> None:
    for machine, architecture, column, common in (
        ("x86_64", 0xC000003E, 0, (0, 1, 59, 202, 231, 257)),
        ("aarch64", 0xC00000B7, 1, (63, 64, 221, 98, 94, 56)),
    ):
        for numbers in DENIED.values():
            assert outcome(machine, architecture, numbers[column]) == REFUSED
        for number in common:
            assert outcome(machine, architecture, number) == ALLOWED


def test_a_process_or_thread_may_be_made_but_no_namespace() -> None:
    assert outcome("x86_64", 0xC000003E, 56, 0x003D0F00) == ALLOWED  # a thread
    assert outcome("x86_64", 0xC000003E, 56, 0x01200011) == ALLOWED  # a process
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x80):
        assert outcome("x86_64", 0xC000003E, 56, flag | 17) == REFUSED
    assert outcome("x86_64", 0xC000003E, 435) == MISSING


def test_nothing_can_be_typed_into_a_terminal() -> None:
    assert outcome("x86_64", 0xC000003E, 16, 0, 0x5412) == REFUSED
    assert outcome("x86_64", 0xC000003E, 16, 0, 0x541C) == REFUSED
    assert outcome("x86_64", 0xC000003E, 16, 0, 0x5413) == ALLOWED


def test_calls_of_another_architecture_do_not_exist() -> None:
    assert outcome("x86_64", 0x40000003, 165) == MISSING
    assert outcome("x86_64", 0xC000003E, 0x40000000 | 165) == MISSING


def test_an_unknown_machine_has_no_filter() -> None:
    assert system_call_filter("s390x") == b""
