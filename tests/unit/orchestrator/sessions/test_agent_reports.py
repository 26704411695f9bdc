"""What is new in reports, and what they say of a kernel."""

from dataclasses import replace

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.records import KernelRecord
from sokovan.domain.slots import NO_SLOTS
from sokovan.orchestrator.sessions.agent_reports import AgentReports
from sokovan.ports.agent_states import AgentState, KernelReport

A1 = AgentId("a1")
K1, K2 = KernelId("k1"), KernelId("k2")


def state(sequence: int, *kernels: KernelReport, incarnation: int = 1) -> dict[AgentId, AgentState]:
    return {A1: AgentState(A1, incarnation, sequence, kernels)}


def running(kernel_id: KernelId, attempt: int = 1) -> KernelReport:
    return KernelReport(kernel_id, attempt, running=True)


def kernel(kernel_id: KernelId = K1, *, incarnation: int = 1, attempt: int = 1) -> KernelRecord:
    return KernelRecord(kernel_id, SessionId("s"), 0, KernelStatus.RUNNING, 1, NO_SLOTS, attempt, A1, incarnation)


def test_only_what_differs_is_news() -> None:
    reports = AgentReports()
    first = reports.update(state(1, running(K1), running(K2)), now_ms=0)
    assert (first.kernels, first.updated, first.enrolled, first.restarted) == ([K1, K2], [A1], [A1], [])
    same = reports.update(state(1, running(K1)), now_ms=5)
    assert (same.kernels, same.updated) == ([], [])
    later = reports.update(state(2, running(K1), KernelReport(K2, 1, running=False, exit_code=0)), now_ms=9)
    assert (later.kernels, later.updated, later.enrolled) == ([K2], [A1], [])
    gone = reports.update(state(3, running(K1)), now_ms=12)
    assert gone.kernels == [K2]
    assert reports.heard_ms(A1) == 12


def test_a_look_says_what_is_listed_and_whether_it_is_current() -> None:
    reports = AgentReports()
    assert reports.looked_up(kernel()) == (None, False)
    reports.update(state(1, running(K1)), now_ms=0)
    for one in (kernel(), kernel(K2), kernel(incarnation=2), kernel(attempt=2), replace(kernel(), agent_id=None)):
        assert reports.looked_up(one) == (reports.listed(one), reports.current(one))
    assert reports.looked_up(kernel()) == (running(K1), True)


def test_the_absence_of_a_kernel_in_a_partial_report_is_no_proof() -> None:
    reports = AgentReports()
    whole = state(1, running(K1), incarnation=2)
    reports.update({A1: replace(whole[A1], partial=True)}, now_ms=0)
    assert not reports.fenced(kernel(K2))
    reports.update(state(2, running(K1), incarnation=2), now_ms=1)
    assert reports.fenced(kernel(K2))


def test_a_restarted_agent_is_distinguished_from_a_new_one() -> None:
    reports = AgentReports()
    reports.update(state(7, running(K1)), now_ms=0)
    diff = reports.update(state(1, running(K1), incarnation=2), now_ms=1)
    assert (diff.enrolled, diff.restarted, diff.kernels) == ([A1], [A1], [])


def test_a_kernel_is_fenced_when_a_later_incarnation_does_not_list_it() -> None:
    reports = AgentReports()
    assert not reports.fenced(kernel())
    reports.update(state(1, incarnation=1), now_ms=0)
    assert not reports.fenced(kernel())
    assert reports.current(kernel())
    reports.update(state(1, running(K2), incarnation=2), now_ms=1)
    assert reports.fenced(kernel())
    assert not reports.fenced(kernel(K2))
    assert not reports.current(kernel(K2))


def test_another_attempt_is_another_kernel() -> None:
    reports = AgentReports()
    reports.update(state(1, running(K1, attempt=2)), now_ms=0)
    assert reports.listed(kernel(attempt=1)) is None
    assert reports.listed(kernel(attempt=2)) == running(K1, attempt=2)


def test_what_is_forgotten_says_nothing() -> None:
    reports = AgentReports()
    reports.update(state(1, running(K1)), now_ms=3)
    reports.forget(A1)
    assert (reports.state(A1), reports.heard_ms(A1), reports.listed(kernel())) == (None, None, None)
    reports.update(state(1, running(K1)), now_ms=3)
    reports.clear()
    assert reports.state(A1) is None
