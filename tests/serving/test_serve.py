"""`linsep serve`: the answers of `linsep predict`, over HTTP, from a process without torch."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linsep import IncrementalClassifier, SavedClassifier
from linsep.storage import manifest
from tests.helpers.browser import browser, requests, severe
from tests.helpers.command import command
from tests.helpers.served import Running, picture, serving, words_of

__all__ = ["browser"]
PICTURES = [picture(i, (12 + 5 * i, 30)) for i in range(3)] + [picture(9, kind="JPEG")]


@pytest.fixture(scope="module")
def server(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(file, log=tmp_path_factory.mktemp("log") / "log.txt") as running:
        yield running


def assert_as_predicted(server: Running, clf: SavedClassifier, place: Path) -> None:
    files = [place / f"{i}.png" for i in range(len(PICTURES))]
    for path, content in zip(files, PICTURES, strict=True):
        path.write_bytes(content)
    found = server.predict(*PICTURES)
    assert found.status == 200
    rows = found.json["predictions"]
    p = clf.predict_proba(files)
    assert [row["class"] for row in rows] == clf.classes_[p.argmax(1)].tolist()
    assert [row["probability"] for row in rows] == pytest.approx(p.max(1), abs=1e-4)
    assert [row["novelty"] for row in rows] == pytest.approx(clf.novelty(files), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["onnx", "torch"])
def test_a_folder_answers_as_predict_does(runtime: str, folder: Path, tmp_path: Path) -> None:
    """The digest is that of the manifest; without torch in the process unless it is asked for."""
    with serving(folder, "--runtime", runtime, log=tmp_path / "log") as server:
        assert_as_predicted(server, SavedClassifier.load(folder), tmp_path)
        told = server.ask("GET", "/model").json
        assert told["model"] == manifest.read(folder).version
        assert told["model"] == server.predict(PICTURES[0]).json["model"]
        assert told["classes"] == ["ant", "bee", "cow", "dog"]
        assert (told["lessons"], told["runtime"], told["reads"]) == (2, runtime, [3, 12, 12])
        mapped = words_of(server.process.pid)
        assert any("libtorch" in word for word in mapped) == (runtime == "torch") or not mapped


def test_a_file_answers_as_predict_does(server: Running, folder: Path, tmp_path: Path) -> None:
    assert_as_predicted(server, SavedClassifier.load(folder), tmp_path)


def test_a_class_is_left_open_below_a_probability(server: Running) -> None:
    sure = server.predict(*PICTURES).json["predictions"]
    least = sorted(row["probability"] for row in sure)[1] + 1e-9
    rows = server.predict(*PICTURES, path=f"/predict?unknown_below={least}").json["predictions"]
    assert sum(row["class"] is None for row in rows) == 2


def test_metrics_count_what_happened(server: Running) -> None:
    def count(name: str) -> float:
        text = server.ask("GET", "/metrics").body.decode()
        (found,) = re.findall(rf"^linsep_{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found)

    server.predict(*PICTURES)
    images, requested = count("images_total"), count('requests_total{path="/predict",status="200"}')
    server.predict(*PICTURES)
    assert count("images_total") == images + len(PICTURES)
    assert count('requests_total{path="/predict",status="200"}') == requested + 1
    assert count("batch_images_count") >= 2
    assert count('request_seconds_bucket{le="+Inf"}') == count("request_seconds_count")
    server.ask("GET", "/nothing-here")
    assert count('requests_total{path="other",status="404"}') >= 1
    digest = server.ask("GET", "/healthz").json["model"]
    assert count(f'model_info{{model="{digest}"}}') == 1


def test_every_path_is_described(server: Running) -> None:
    described = server.ask("GET", "/openapi.json").json
    assert set(described["paths"]) == {"/predict", "/model", "/healthz", "/metrics"}
    page = server.ask("GET", "/docs").body.decode()
    for words in (*described["paths"], "predictions[].probability", "unknown_below"):
        assert words in page


def test_the_server_ends_when_it_is_told(file: Path, tmp_path: Path) -> None:
    with serving(file, log=tmp_path / "log") as server:
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(20)
        assert "Traceback" not in server.log.read_text()


# --- the page -------------------------------------------------------------------------------------


def test_the_page_classifies_images(browser: Any, server: Running, tmp_path: Path) -> None:
    """Chosen in the browser; the page asks nobody but its server."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.wait import WebDriverWait

    root = f"http://127.0.0.1:{server.port}/"
    browser.get(root)
    for i, content in enumerate(PICTURES[:2]):
        (tmp_path / f"{i}.png").write_bytes(content)
    chosen = "\n".join(str(tmp_path / f"{i}.png") for i in range(2))
    find = browser.find_element
    wait = WebDriverWait(browser, 20)
    wait.until(lambda _: "4 classes from 2 lessons" in find(By.ID, "model").text)
    find(By.ID, "files").send_keys(chosen)
    wait.until(lambda _: "Answered by" in find(By.ID, "model").text)
    wanted = server.predict(*PICTURES[:2]).json["predictions"]
    body = find(By.CSS_SELECTOR, "tbody").text
    for row in wanted:
        assert row["class"] in body
        assert f"{100 * row['probability']:.1f} %" in body
    (tmp_path / "bad.png").write_bytes(b"no picture")
    find(By.ID, "files").send_keys(str(tmp_path / "bad.png"))
    wait.until(lambda _: "bad.png cannot be read" in find(By.ID, "error").text)
    assert all(address.startswith((root, "blob:")) for address in requests(browser))
    assert all("422" in str(message) for message in severe(browser))


def test_the_reference_asks_nobody_else(browser: Any, server: Running) -> None:
    root = f"http://127.0.0.1:{server.port}/"
    requests(browser)
    browser.get(root + "docs")
    assert all(address.startswith(root) for address in requests(browser))
    assert not severe(browser)


# --- errors of the one who starts it --------------------------------------------------------------


def test_the_port_of_another_is_one_line(file: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = command("serve", str(file), "--port", port, cwd=tmp_path)
    assert said.returncode == 2
    assert re.fullmatch(r"error: cannot listen on 127\.0\.0\.1:\d+: .*in use.*\n", said.stderr)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("no-such-model",), "there is no model no-such-model"),
        (("empty",), "empty holds no model"),
        (("text.onnx",), "text.onnx is not an ONNX file"),
        (("text.onnx", "--runtime", "torch"), "torch needs the folder"),
        (("text.onnx", "--runtime", "jax"), "--runtime: unknown runtime 'jax'"),
        (("table",), "table was made of tables of numbers"),
        (("text.onnx", "--host", "no.such.host.invalid"), "cannot listen on no.such.host"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    words: tuple[str, ...], line: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.onnx").write_text("not an ONNX file")
    if words == ("table",):
        x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
        IncrementalClassifier("er", memory=4, epochs=1).fit(x, [0, 1] * 10).save(tmp_path / "table")
    said = command("serve", *words, "--port", "0", cwd=tmp_path)
    assert said.returncode == 2
    assert said.stderr.count("\n") == 1
    assert line in said.stderr


def test_a_foreign_onnx_file_is_refused(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    tensor = onnx.helper.make_tensor_value_info("images", onnx.TensorProto.FLOAT, [1])
    same = onnx.helper.make_node("Identity", ["images"], ["probabilities"])
    out = onnx.helper.make_tensor_value_info("probabilities", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph([same], "other", [tensor], [out])
    made = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9
    )
    onnx.save(made, tmp_path / "other.onnx")
    said = command("serve", "other.onnx", "--port", "0", cwd=tmp_path)
    assert said.returncode == 2
    assert "other.onnx was not exported by linsep" in said.stderr


def test_help_needs_no_server() -> None:
    """`linsep serve --help` imports neither torch nor FastAPI."""
    script = """
import sys
from linsep.cli import main
try:
    main()
except SystemExit:
    pass
print(*sorted({"torch", "fastapi", "uvicorn", "onnxruntime"} & set(sys.modules)))
"""
    words = [sys.executable, "-c", script, "serve", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""
