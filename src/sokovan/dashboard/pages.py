"""Routes of the dashboard's files: one page for every address, and what it loads."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from sokovan.dashboard.assets import INDEX, Assets
from sokovan.dashboard.headers import page_headers

PATH = "/ui"
FILES = "assets/"
NOT_BUILT = """\
The files of the dashboard are not installed: they are built from web/ in the source tree.

  make web      builds them, and needs a package index for that; then load this page again

The API and the command line work without them.
"""


class DashboardPages:
    """Serves the dashboard; without its files, how to build them."""

    def __init__(self, assets: Assets | None = None) -> None:
        self._assets = assets or Assets()

    def routes(self) -> Sequence[BaseRoute]:
        """The routes, which need no key: the files are the same for everybody."""
        return [
            Route(PATH, self.root, name="dashboard_root"),
            Route(f"{PATH}/{{path:path}}", self.file, name="dashboard_file"),
        ]

    async def root(self, request: Request) -> Response:
        """Lead to the address whose relative addresses are those of the dashboard."""
        return RedirectResponse(f"{PATH}/", headers=dict(page_headers(tls=_is_tls(request))))

    async def file(self, request: Request) -> Response:
        """A file by its name, or the page: it reads the rest of the address itself."""
        if not self._assets.is_built:
            headers = dict(page_headers(tls=_is_tls(request)))
            return PlainTextResponse(NOT_BUILT, status_code=HTTPStatus.NOT_FOUND, headers=headers)
        path = str(request.path_params["path"])
        found = self._assets.find(path if path.startswith(FILES) else INDEX)
        if found is None:
            headers = dict(page_headers(tls=_is_tls(request)))
            return PlainTextResponse("no such file\n", status_code=HTTPStatus.NOT_FOUND, headers=headers)
        headers = {**page_headers(immutable=found.immutable, tls=_is_tls(request)), "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(found.packed, media_type=found.media, headers={**headers, "Content-Encoding": "gzip"})
        return Response(found.content, media_type=found.media, headers=headers)


def _is_tls(request: Request) -> bool:
    return request.url.scheme == "https"
