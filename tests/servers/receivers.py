"""Servers that alerts are sent to: one that takes JSON, one that takes mail; and how they fail."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Posted:
    """One request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Hook:
    """A web server that answers with `status`, or not at all while it hangs."""

    status: int = 200
    posted: list[Posted] = field(default_factory=list)
    hanging: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook/s3cret-path"


@contextlib.contextmanager
def web_hook() -> Iterator[Hook]:
    """A running hook."""
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if hook.hanging.is_set():
                hook.released.wait(60)
                return
            hook.posted.append(Posted(self.path, dict(self.headers), json.loads(body)))
            self.send_response(hook.status)
            if 300 <= hook.status < 400:
                self.send_header("Location", hook.url)
            self.end_headers()
            self.wfile.write(b"what the server says, maybe s3cret-path")

        def do_GET(self) -> None:
            hook.posted.append(Posted(self.path, dict(self.headers), {}))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hook
    finally:
        hook.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def closed_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
