"""What is known of images, incarnation by incarnation."""

from sokovan.domain.ids import AgentId
from sokovan.orchestrator.image_reports import ImageReports
from sokovan.ports.agent_gateway import ImageReport, ImageState

A1 = AgentId("a1")
PULLING = ImageReport("python", ImageState.PULLING, "10 %")
READY = ImageReport("python", ImageState.READY)


def test_only_what_was_not_said_before_is_news() -> None:
    reports = ImageReports()
    assert reports.update(A1, 1, [PULLING])
    assert not reports.update(A1, 1, [PULLING])
    assert reports.update(A1, 1, [ImageReport("python", ImageState.PULLING, "20 %")])
    assert reports.update(A1, 1, [READY])
    assert reports.of(A1, 1, "python") == READY


def test_a_new_incarnation_begins_with_nothing() -> None:
    reports = ImageReports()
    reports.update(A1, 1, [READY])
    reports.update(A1, 2, [])
    assert reports.of(A1, 1, "python") is None
    assert reports.of(A1, 2, "python") is None
    assert not reports.update(A1, 1, [READY])
    assert reports.of(A1, 2, "python") is None


def test_no_image_is_always_ready() -> None:
    assert ImageReports().of(A1, 1, "") == ImageReport("", ImageState.READY)


def test_ready_images_are_those_of_the_current_incarnation() -> None:
    reports = ImageReports()
    states = [ImageReport("venv:a", ImageState.READY), ImageReport("venv:b", ImageState.FAILED)]
    reports.update(AgentId("a1"), 2, states)
    assert reports.ready(AgentId("a1"), 2) == {"venv:a"}
    assert reports.ready(AgentId("a1"), 1) == reports.ready(AgentId("a2"), 2) == frozenset()
