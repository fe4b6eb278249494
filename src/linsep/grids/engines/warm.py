"""A process that has torch loaded and nothing done, and forks workers from it: each starts at once.

Importing torch and making the first optimiser cost seconds of every process that does it. This one
does it once. It stays on one thread and runs no computation, so that a fork of it is sound, and
ends when its parent does. Where forking such a process is not sound (anywhere but on Linux),
workers are started as programs of their own.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ..worker import Worker

AVAILABLE = sys.platform == "linux"
PATIENCE = 10.0  # seconds to wait for the news of a death


class Nursery:
    """The parent's end: `fork` a worker, and ask `exit_code` what one died of."""

    def __init__(self, log: Path) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._codes: dict[int, int] = {}
        with theirs, log.open("a") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "linsep.grids.engines.warm"],
                stdin=theirs.fileno(),
                stdout=said,
                stderr=said,
                env=os.environ | ONE_THREAD,
            )

    def alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, channel: socket.socket, environment: Mapping[str, str]) -> None:
        with suppress(OSError):  # if it has died, the worker's channel says so
            content = json.dumps(dict(environment)).encode()
            socket.send_fds(self._control, [content], [channel.fileno()])

    def exit_code(self, process: int) -> int | None:
        """Negative for a signal, as in `subprocess`."""
        self._control.settimeout(PATIENCE)
        with suppress(OSError):
            while process not in self._codes and (news := self._control.recv(4096)):
                number, code = json.loads(news)
                self._codes[number] = code
        return self._codes.pop(process, None)

    def close(self) -> None:
        """It ends after its workers, which have been told to."""
        self._control.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def serve(control: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _load()
    signal.signal(signal.SIGCHLD, lambda *_: _tell_deaths(control))
    while True:
        content, handles, _, _ = socket.recv_fds(control, 1 << 16, 1)
        if not content:
            break
        if os.fork() == 0:
            _be_a_worker(control, handles[0], json.loads(content))
        os.close(handles[0])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _load() -> None:
    import torch

    from ... import prepare  # noqa: F401
    from ...data import scenarios  # noqa: F401
    from ...storage import session  # noqa: F401

    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)  # imports a great deal


def _be_a_worker(control: socket.socket, handle: int, environment: dict[str, str]) -> None:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        os.environ.update(environment)
        Worker(socket.socket(fileno=handle)).work()
        code = 0
    except BaseException:  # noqa: BLE001 - nothing may get back into the process it was forked from
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _tell_deaths(control: socket.socket) -> None:
    with suppress(OSError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            control.send(json.dumps([ended[0], os.waitstatus_to_exitcode(ended[1])]).encode())


if __name__ == "__main__":
    serve(socket.socket(fileno=sys.stdin.fileno()))
