"""A TCP proxy that cuts a connection at a chosen moment of its traffic."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
from typing import Literal

Moment = Literal["before", "after", "half"]


class _Proxy:
    """Listens on a free port, and serves each caller in a thread of its own."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._welcome(client):
                    threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _welcome(self, client: socket.socket) -> bool:
        """Whether the caller is served."""
        return True

    def _serve(self, client: socket.socket) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._listener.close()


class CuttingProxy(_Proxy):
    """Forwards to a server until the client sends a marked packet; then the connection ends, on both sides.

    Args:
        host: The server's; a folder is that of PostgreSQL's socket.
        port: The server's.
        mark: Bytes that the packet contains.
        moment: `before` the server gets it; `after` the server has answered it, with the answer thrown away; or `half`:
            the same, and only the way back is closed, so that the server still has its client.
        times: How often it cuts.
        since: Only on a connection that has sent this before; empty for any.
    """

    def __init__(
        self, host: str, port: int, mark: bytes, moment: Moment, *, times: float = math.inf, since: bytes = b""
    ) -> None:
        self._since = since
        self._left = times
        self._mark = mark
        self._moment = moment
        super().__init__(host, port)

    def _serve(self, client: socket.socket) -> None:
        server = _connected(*self._server)
        marked = threading.Event()
        back = threading.Thread(target=self._backward, args=(server, client, marked), daemon=True)
        back.start()
        with contextlib.suppress(OSError):
            due = False
            while data := client.recv(65_536):
                due = due or self._since in data
                if due and self._mark in data and self._left > 0:
                    self._left -= 1
                    marked.set()
                    if self._moment == "before":
                        break
                server.sendall(data)
        if not (self._moment == "after" and marked.is_set()):
            _end(client, server)  # half closed: the client has closed its side by now

    def _backward(self, server: socket.socket, client: socket.socket, marked: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65_536):
                if marked.is_set():
                    break
                client.sendall(data)
        if self._moment == "half" and marked.is_set():
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_WR)
            return
        _end(client, server)


def _connected(host: str, port: int) -> socket.socket:
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    server = socket.socket(socket.AF_UNIX)
    server.connect(f"{host}/.s.PGSQL.{port}")
    return server


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


class MoodyProxy(_Proxy):
    """Forwards to a server, but hangs up on some callers at once.

    Args:
        host: The server's; a folder is that of PostgreSQL's socket.
        port: The server's.
        refused: So many callers are refused, the first ones …
        of: … of each so many.

    Attributes:
        connections: How many came.
    """

    def __init__(self, host: str, port: int, *, refused: int, of: int) -> None:
        self._refused, self._of = refused, of
        self.connections = 0
        super().__init__(host, port)

    def _welcome(self, client: socket.socket) -> bool:
        place = self.connections % self._of
        self.connections += 1
        if place < self._refused:
            client.close()
        return place >= self._refused

    def _serve(self, client: socket.socket) -> None:
        server = _connected(*self._server)
        threading.Thread(target=_forward, args=(server, client), daemon=True).start()
        _forward(client, server)


def _forward(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(65_536):
            other.sendall(data)
    _end(one, other)
