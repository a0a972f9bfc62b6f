"""The dashboards that studies publish: whole pages in a file each, with their scripts inside."""

from __future__ import annotations

from fastapi.staticfiles import StaticFiles
from starlette.responses import Response
from starlette.types import Scope

PUBLISHED_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src 'self' data:; frame-ancestors 'none'"
)
"""What browsers let a published page do: run what stands in it, and nothing else. It is no page of the server's to them, so it
can neither call the API with a visitor's key nor send anything anywhere."""


class Published(StaticFiles):
    """The files of published studies."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file, and what a page among them may do."""
        response = await super().get_response(path, scope)
        if response.headers.get("content-type", "").startswith("text/html"):
            response.headers["content-security-policy"] = PUBLISHED_POLICY
        return response
