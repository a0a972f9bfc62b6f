"""Serves the dashboards that studies publish: pages of one file each, with their scripts inside."""

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
"""The policy of a published page: it may run its own scripts, and request nothing from anywhere.

It is shown in a frame, since a page by itself could send its reader elsewhere along with its data. The policy of the page around
the frame forbids the frame to navigate."""

FILE_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
"""The policy of other files, some of which may have scripts too, such as SVG pictures."""

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
"""Without it, a framed page would resolve links to its own sections against the page around it."""

_BEGIN = re.compile(r"\s*<!doctype[^>]*>|", re.IGNORECASE)
_TITLE = re.compile("<title>([^<]*)</title>", re.IGNORECASE)


class Published(StaticFiles):
    """The files of published studies."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Serve a file; a page is put in a frame."""
        response = await super().get_response(path, scope)
        if not response.headers.get("content-type", "").startswith("text/html"):
            response.headers["content-security-policy"] = FILE_POLICY
            return response
        assert isinstance(response, FileResponse)
        return await asyncio.to_thread(_framed, Path(response.path), response.status_code)

    def is_not_modified(self, response_headers: Headers, request_headers: Headers) -> bool:
        """Never: a browser may have cached the file without the frame."""
        return False


def _framed(path: Path, status: int) -> Response:
    page = path.read_text(encoding="utf-8", errors="replace")
    title = _TITLE.search(page)
    shown = html.escape(html.unescape(title[1]).strip()) if title else "A study"
    content = FRAME.format(title=shown, page=html.escape(_BEGIN.sub(lambda match: match[0] + BASE, page, count=1)))
    return HTMLResponse(content, status, {"content-security-policy": FRAME_POLICY, "cache-control": "no-store"})
