"""The state of images on agents, from heartbeats and replies."""

from __future__ import annotations

from collections.abc import Iterable

from sokovan.domain.ids import AgentId, is_name
from sokovan.ports.agent_gateway import ImageReport, ImageState


class ImageReports:
    """The last report on each image of each agent's current incarnation."""

    def __init__(self) -> None:
        self._incarnations: dict[AgentId, int] = {}
        self._reports: dict[AgentId, dict[str, ImageReport]] = {}

    def update(self, agent_id: AgentId, incarnation: int, reports: Iterable[ImageReport]) -> bool:
        """Store reports of an agent; whether any of them is new."""
        known = self._incarnations.get(agent_id, 0)
        if incarnation < known:
            return False
        if incarnation > known:
            self._incarnations[agent_id] = incarnation
            self._reports[agent_id] = {}
        images = self._reports[agent_id]
        changed = False
        for report in reports:
            before = images.get(report.image)
            changed |= before != report
            images[report.image] = report
        return changed

    def ready(self, agent_id: AgentId, incarnation: int) -> frozenset[str]:
        """The images that this incarnation has reported as ready."""
        if self._incarnations.get(agent_id) != incarnation:
            return frozenset()
        reports = self._reports[agent_id].values()
        return frozenset(one.image for one in reports if one.state is ImageState.READY and is_name(one.image))

    def of(self, agent_id: AgentId, incarnation: int, image: str) -> ImageReport | None:
        """The last report of this incarnation on an image; None if there is none."""
        if not image:
            return ImageReport("", ImageState.READY)
        if self._incarnations.get(agent_id) != incarnation:
            return None
        return self._reports[agent_id].get(image)
