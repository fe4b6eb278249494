"""Bad requests: each is answered with a 4xx in JSON, and the server goes on."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.served import FORM, Running, form, part, picture, serving

from .bad_requests import BAD, BYTES, END, GOOD, IMAGES, PIXELS, request

PATIENCE = 1.5  # seconds for a request to arrive
SECRETS = ("secret-place", "site-packages", "Traceback", "/usr", "/root", "/home", "/tmp", "0x")


@pytest.fixture(scope="module")
def server(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limits = ("--max-images", str(IMAGES), "--max-mb", str(BYTES / 1e6))
    more = ("--max-pixels", str(PIXELS), "--timeout", str(PATIENCE))
    log = tmp_path_factory.mktemp("log") / "log.txt"
    with serving(file, *limits, *more, log=log) as running:
        yield running
        assert running.process.poll() is None
        assert "Traceback" not in log.read_text()


@pytest.fixture(autouse=True)
def goes_on(server: Running) -> Iterator[None]:
    yield
    assert server.predict(GOOD).status == 200


def assert_refused(answer: bytes, *statuses: int) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    assert 400 <= status < 500
    assert not statuses or status in statuses
    assert b"content-type: application/json" in head.lower()
    told = json.loads(body)
    assert set(told) == {"error"}
    assert told["error"]
    assert "\n" not in told["error"]
    for secret in SECRETS:
        assert secret not in head.decode() + told["error"]


def test_there_are_many() -> None:
    assert len(BAD) > 90


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_refused(name: str, server: Running) -> None:
    assert_refused(server.raw(BAD[name]))


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("rubbish", 400),
        ("GET /predict", 405),
        ("the path /../../etc/passwd", 404),
        ("JSON", 415),
        ("no boundary", 400),
        ("too many images", 413),
        ("too many bytes", 413),
        ("too many bytes in chunks", 413),
        ("a length that is too large", 413),
        ("a real bomb", 413),
        ("a bomb's header", 413),
        ("pixels in all", 413),
        ("half a PNG", 422),
        ("one bad image among good ones", 422),
        ("a probability of 2", 422),
    ],
)
def test_the_status_tells_the_reason(name: str, status: int, server: Running) -> None:
    assert_refused(server.raw(BAD[name]), status)


# --- slow clients ---------------------------------------------------------------------------------


SLOW = {
    "headers that do not end": (b"POST /predict HTTP/1.1\r\n", b"Host: x\r\n"),
    "headers that trickle": tuple(b"GET /model HTTP/1.1\r\nA: " + b"a" * 30 for _ in range(1)),
    "a body that does not come": (request(body=form(GOOD))[: -len(form(GOOD))],),
    "a body that trickles": tuple(request(body=form(GOOD))[i : i + 40] for i in range(0, 240, 40)),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_slow_client_is_told_so(name: str, server: Running) -> None:
    begun = time.monotonic()
    assert_refused(server.raw(*SLOW[name], pause=0.3), 408)
    assert time.monotonic() - begun < PATIENCE + 4


def test_who_says_nothing_is_disconnected(server: Running) -> None:
    begun = time.monotonic()
    assert server.raw() == b""
    assert time.monotonic() - begun < PATIENCE + 4


def test_who_never_ends_after_a_refusal_is_disconnected(server: Running) -> None:
    """A refused upload is not read for ever."""
    head = request(more="Content-Length: 99999999999").replace(b"Content-Length: 0\r\n", b"")
    head = head.replace(b"Connection: close\r\n", b"")
    begun = time.monotonic()
    assert b" 413 " in server.raw(head, *[b"x" * 100] * 30, pause=0.1)
    assert time.monotonic() - begun < PATIENCE + 6


def test_who_leaves_in_the_middle_harms_nobody(server: Running) -> None:
    for length in (10, 60, 300):
        with socket.create_connection(("127.0.0.1", server.port)) as line:
            line.sendall(request(body=form(picture(size=(40, 40))))[:length])


def test_many_slow_clients_do_not_keep_others_waiting(server: Running) -> None:
    lines = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    try:
        for line in lines:
            line.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\n")
        begun = time.monotonic()
        assert server.predict(GOOD).status == 200
        assert time.monotonic() - begun < PATIENCE
    finally:
        for line in lines:
            line.close()


# --- what looks bad and is not --------------------------------------------------------------------


def test_a_name_like_a_path_is_only_a_name(server: Running) -> None:
    name = 'form-data; name="images"; filename="../../../etc/passwd"'
    body = part(GOOD, name) + END
    found = server.ask("POST", "/predict", body, Content_Type=FORM)
    assert found.json["predictions"][0]["file"] == "../../../etc/passwd"


def test_control_characters_in_a_name_come_back_escaped(server: Running) -> None:
    body = part(GOOD, 'form-data; name="images"; filename="\x1b[31m"') + END
    found = server.ask("POST", "/predict", body, Content_Type=FORM)
    assert found.json["predictions"][0]["file"] == "\\x1b[31m"


def test_an_image_of_another_size_is_brought_to_the_models(server: Running) -> None:
    found = server.predict(picture(size=(300, 200)), picture(1, (20, 31), "JPEG"))
    assert found.status == 200
    assert len(found.json["predictions"]) == 2
