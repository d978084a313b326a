"""A TCP proxy that cuts a connection at a chosen moment of its traffic."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Literal

Moment = Literal["before", "after"]


class CuttingProxy:
    """Forwards to a server until the client sends a marked packet; then the connection ends, on both sides.

    Args:
        host: The server's.
        port: The server's.
        mark: Bytes that the packet contains.
        moment: `before` the server gets it, or `after` the server has answered it, with the answer thrown away.
    """

    def __init__(self, host: str, port: int, mark: bytes, moment: Moment) -> None:
        self._server = (host, port)
        self._mark = mark
        self._moment = moment
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.create_connection(self._server)
        marked = threading.Event()
        back = threading.Thread(target=self._backward, args=(server, client, marked), daemon=True)
        back.start()
        with contextlib.suppress(OSError):
            while data := client.recv(65_536):
                if self._mark in data:
                    marked.set()
                    if self._moment == "before":
                        break
                server.sendall(data)
        if not (self._moment == "after" and marked.is_set()):
            _end(client, server)

    def _backward(self, server: socket.socket, client: socket.socket, marked: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65_536):
                if marked.is_set():
                    break
                client.sendall(data)
        _end(client, server)

    def close(self) -> None:
        self._listener.close()


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
