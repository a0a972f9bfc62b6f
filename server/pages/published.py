"""The dashboards that studies publish: whole pages in a file each, with their scripts inside."""

from __future__ import annotations

import asyncio
import html
import re
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FRAME_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; form-action 'none'; frame-ancestors 'none'"
)
"""What browsers let a published page do: run what stands in it. It is no page of the server's to them, and may ask for nothing.

It stands in a frame, since a page of its own could lead its reader elsewhere, and take along what it knows. Where a frame may be
led, the policy of the page around it says: nowhere."""

FILE_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
"""What they let other files do, of which some kinds may have scripts too, such as pictures in SVG."""

FRAME = """\
<!DOCTYPE html>
<html>
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <title>{title}</title>
  <style>html, body {{ height: 100%; margin: 0 }} iframe {{ border: 0; display: block; height: 100%; width: 100% }}</style>
</head>
<body><iframe title="{title}" sandbox="allow-scripts allow-downloads" srcdoc="{page}"></iframe></body>
</html>
"""

BASE = '<base href="about:srcdoc">'
"""A page in a frame would take links to its own parts for links to the page around it."""

_BEGIN = re.compile(r"\s*<!doctype[^>]*>|", re.IGNORECASE)
_TITLE = re.compile("<title>([^<]*)</title>", re.IGNORECASE)


class Published(StaticFiles):
    """The files of published studies."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file. A page stands in a frame."""
        response = await super().get_response(path, scope)
        if not response.headers.get("content-type", "").startswith("text/html"):
            response.headers["content-security-policy"] = FILE_POLICY
            return response
        assert isinstance(response, FileResponse)
        return await asyncio.to_thread(_framed, Path(response.path), response.status_code)

    def is_not_modified(self, response_headers: Headers, request_headers: Headers) -> bool:
        """Never: what a browser has kept may have come without the frame."""
        return False


def _framed(path: Path, status: int) -> Response:
    page = path.read_text(encoding="utf-8", errors="replace")
    title = _TITLE.search(page)
    shown = html.escape(html.unescape(title[1]).strip()) if title else "A study"
    content = FRAME.format(title=shown, page=html.escape(_BEGIN.sub(lambda found: found[0] + BASE, page, count=1)))
    return HTMLResponse(content, status, {"content-security-policy": FRAME_POLICY, "cache-control": "no-store"})
