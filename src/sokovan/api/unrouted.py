"""What the router itself refuses: paths that are not there, methods they have not."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from sokovan.api.errors import MethodNotAllowed, NoSuchRoute
from sokovan.domain.errors import quoted


async def unrouted(request: Request, error: Exception) -> Response:
    """What the router itself refuses, in our words: raised, so that the gate answers."""
    path = request.url.path
    if not isinstance(error, HTTPException) or error.status_code != 405:
        raise NoSuchRoute(f"there is nothing at {quoted(path)}") from None
    allowed = {
        method
        for route in request.app.router.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
    raise MethodNotAllowed(method=request.method, path=path, allowed=sorted(allowed)) from None
