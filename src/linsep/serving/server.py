"""The HTTP server around the application: uvicorn, with errors in JSON and no patience for ever."""

from __future__ import annotations

import asyncio
import json
import socket
from functools import partial
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import ConfigError

LINGER = 2.0  # seconds for a refused client to read why
GRACE = 30  # seconds for requests under way when the server is stopped
MOST = 1024  # connections


def listening(host: str, port: int) -> socket.socket:
    """A socket on an address; ConfigError if it cannot be had."""
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None


def run(app: FastAPI, at: socket.socket, patience: float) -> None:
    """Serve until Ctrl-C or SIGTERM; requests under way are answered first.

    `patience`: seconds for a request's headers, and for what is left of a refused one.
    """
    protocol: Any = partial(Impatient, patience=patience)
    config = uvicorn.Config(
        app, http=protocol, ws="none", lifespan="on", log_level="warning", access_log=False,
        server_header=False, proxy_headers=False,
        timeout_graceful_shutdown=GRACE,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[at])


class Impatient(H11Protocol):
    """Closes a connection whose request does not come, and says in JSON why it refuses one."""

    _late: asyncio.TimerHandle | None = None
    _refused = False

    def __init__(self, *args: Any, patience: float, **more: Any) -> None:
        super().__init__(*args, **more)
        self._patience = patience

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > MOST:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again later")
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()  # the application has the request, and limits of its own

    def on_response_complete(self) -> None:
        self._stop_waiting()
        self._wait()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._refuse(HTTPStatus.BAD_REQUEST, "this is no HTTP request that can be read")

    def _wait(self) -> None:
        self._late = self.loop.call_later(self._patience, self._give_up)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        if self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            line = f"the request's headers took more than {self._patience:g} s to arrive"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, line)
        else:
            self.transport.close()

    def _refuse(self, status: HTTPStatus, line: str) -> None:
        body = json.dumps({"error": line}).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        try:
            for event in (
                h11.Response(status_code=status, headers=headers, reason=status.phrase.encode()),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # an answer was begun before
            self.transport.close()
            return
        # Closed with bytes unread, the connection would be reset, and the answer lost.
        self._refused = True
        self._stop_waiting()
        self.transport.write_eof()
        self._late = self.loop.call_later(LINGER, self.transport.close)
