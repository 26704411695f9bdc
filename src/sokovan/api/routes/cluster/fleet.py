"""Routes of scaling groups, queues and images."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import AuthenticatedPrincipal
from sokovan.api.access.known_slots import permit_known_slots
from sokovan.api.access.queue_shares import permit_shares
from sokovan.api.context import ApiContext
from sokovan.api.mapping.fleet import (
    image_of,
    image_view,
    queue_of,
    queue_view,
    scaling_group_of,
    scaling_group_view,
)
from sokovan.api.operations import ApiOperation, body_of
from sokovan.api.routes.catalog import CatalogRoutes, Resource
from sokovan.api.routes.parameters import Architecture, Name
from sokovan.api.scaling_group_policy import permit_runnable
from sokovan.domain.cluster.image import Image, is_process_image
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.owners.access import ObjectKind
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.scheduling.registry import PluginRegistry
from sokovan.wire.api.fleet import ImageBody, ImagePage, QueueBody, QueuePage, ScalingGroupBody, ScalingGroupPage

QUEUES = Resource(
    path="queues",
    kind=ObjectKind.QUEUE,
    item=Queue,
    body=QueueBody,
    page=QueuePage,
    view=queue_view,
    build=queue_of,
    permit=permit_shares,
)


def _absent_image(key: str) -> str:
    """The images of the process runtime need no entry in the catalog."""
    name = key.partition(" ")[0]
    return f"{name} can be used without being registered; image set registers it" if is_process_image(name) else ""


IMAGES = Resource(
    path="images",
    kind=ObjectKind.IMAGE,
    item=Image,
    body=ImageBody,
    page=ImagePage,
    view=image_view,
    build=image_of,
    permit=permit_known_slots,
    key=lambda image: f"{image.name} {image.architecture}",
    absence=_absent_image,
)


class ImageRoutes(CatalogRoutes[Image, ImageBody]):
    """Routes of images, identified by name and architecture."""

    def __init__(self, context: ApiContext) -> None:
        super().__init__(context, IMAGES)

    async def show(self, request: Request, name: Name, architecture: Architecture = None) -> Response:
        """Show an image; by default of the usual or the only architecture."""
        return await super().show(request, await self._key(name, architecture))

    async def put(self, request: Request, name: Name, architecture: Architecture = None) -> Response:
        """Create or replace an image; administrators only."""
        if architecture not in {None, body_of(request, ImageBody).architecture}:
            raise InvalidRequest([Problem("query/architecture", "does not match the architecture in the body")])
        return await super().put(request, name)

    async def remove(self, request: Request, name: Name, architecture: Architecture = None) -> Response:
        """Remove an image; administrators only."""
        return await super().remove(request, await self._key(name, architecture))

    async def _put(self, principal: AuthenticatedPrincipal, body: ImageBody, key: str) -> Response:
        return await super()._put(principal, body, f"{key} {body.architecture}")

    async def _key(self, name: str, architecture: str | None) -> str:
        if architecture is not None:
            return f"{name} {architecture}"
        images = await self._store.read(lambda unit: unit.catalog.all(Image))
        found = [image.architecture for image in images if image.name == name]
        return f"{name} {found[0] if len(found) == 1 else ImageBody(name=name).architecture}"


def scaling_groups(plugins: PluginRegistry) -> Resource[ScalingGroup, ScalingGroupBody]:
    """Scaling groups; their policy must be runnable with these plugins."""
    return Resource(
        path="scaling-groups",
        kind=ObjectKind.SCALING_GROUP,
        item=ScalingGroup,
        body=ScalingGroupBody,
        page=ScalingGroupPage,
        view=scaling_group_view,
        build=scaling_group_of,
        permit=permit_runnable(plugins),
    )


def fleet_operations(context: ApiContext) -> list[ApiOperation]:
    """The operations on scaling groups, queues and images."""
    routes: list[CatalogRoutes[Any, Any]] = [
        CatalogRoutes(context, scaling_groups(context.dependencies.plugins)),
        CatalogRoutes(context, QUEUES),
        ImageRoutes(context),
    ]
    return [operation for one in routes for operation in one.operations()]
