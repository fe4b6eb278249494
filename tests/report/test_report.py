"""The report: what it shows and when, that its numbers are the runs', and that text stays text."""

import base64
import csv
import io
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from linsep.analysis.analyse import table
from linsep.compare.variants import title
from linsep.report import canvas
from linsep.report.answer import answers
from linsep.report.canvas import Figure
from linsep.report.gather import LoadedRuns, load_runs
from linsep.report.page import figures, page, sections
from linsep.report.words import audit
from linsep.storage.store import Store
from tests.helpers.command import command
from tests.helpers.made_reports import ANALYSES, HOSTILE, hostile_run, make_full_run
from tests.helpers.made_runs import make_run
from tests.helpers.undrawn import undrawn

PARTS = ("confusion", "events", "timing", "environment", "memory", *ANALYSES)
SECTION_OF = {
    "confusion": "confusion", "events": "losses", "timing": "time", "memory": "memory",
    "spectrum": "spectrum", "cka": "cka", "probe": "probe", "tsne": "tsne",
    "projection": "projection", "drift": "drift", "transfer": "transfer",
}  # fmt: skip
ALWAYS = {"numbers", "over-tasks", "runs", "matrices", "forgetting", "audit", "origin"}


def loaded_runs(runs: Path) -> LoadedRuns:
    return load_runs(Store(runs).select())


def two_variants(runs: Path, parts: Sequence[str] = PARTS) -> LoadedRuns:
    for method in ("er", "er+bfp"):
        for seed in range(2):
            make_full_run(runs, method, seed, parts=parts)
    return loaded_runs(runs)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[LoadedRuns, str]:
    """Runs with everything, and their page, made once."""
    found = two_variants(tmp_path_factory.mktemp("full"))
    return found, page(found)


@pytest.fixture
def _undrawn() -> Iterator[None]:
    """For tests of words and tables."""
    with undrawn():
        yield


def figure(found: LoadedRuns, name: str) -> Figure:
    (one,) = [f for f in figures(found) if f.name == name]
    return one


def rows(one: Figure) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(one.data.to_csv())))


class Page(HTMLParser):
    """The elements of a page: tags with attributes, and the texts in them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.inside: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag not in ("meta", "img", "br"):
            self.inside.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        for tag in set(self.inside):
            self.texts[tag][-1] += data


# --- what is shown -------------------------------------------------------------------------------


def test_a_section_is_there_only_with_its_data(
    full: tuple[LoadedRuns, str], tmp_path: Path
) -> None:
    assert {s.name for s in sections(full[0])} == ALWAYS | set(SECTION_OF.values())
    for part, section in SECTION_OF.items():
        make_full_run(tmp_path / part, "er+bfp", parts=[part])
        alone = {s.name for s in sections(loaded_runs(tmp_path / part))}
        assert alone == ALWAYS | {section}


def test_the_page_is_made_of_its_sections(full: tuple[LoadedRuns, str]) -> None:
    found, text = full
    read = Page(text)
    ids = [given.get("id") for tag, given in read.tags if tag == "section"]
    assert ids == [section.name for section in sections(found)]
    names = [given["data-name"] for tag, given in read.tags if "data-name" in given]
    assert names == [one.name for one in figures(found)]
    assert len(set(names)) == len(names)
    data = json.loads(zlib.decompress(base64.b64decode(read.texts["script"][0])))
    assert data == {one.name: one.data.to_csv() for one in figures(found)}
    every = [given["id"] for _, given in read.tags if given.get("id")]
    assert len(set(every)) == len(every)


# --- its numbers ---------------------------------------------------------------------------------


def test_curves_are_the_matrices_and_the_table_is_what_is_drawn(tmp_path: Path) -> None:
    found = two_variants(tmp_path, parts=[])
    one = figure(found, "accuracy-over-tasks")
    expected: dict[tuple[str, str, float], tuple[float, float]] = {}
    for group in found.variants:
        for protocol, shown in (("class_il", "Class-IL"), ("task_il", "Task-IL")):
            many = np.array([run.results["matrices"][protocol] for run in group.runs], float)
            for t in range(5):
                means = 100 * many[:, t, : t + 1].mean(1)
                expected[shown, group.label, t + 1] = (means.mean(), means.std(ddof=1))
    drawn = {}
    with canvas.house():
        for axes in one.drawn().drawing.axes:
            for line in axes.lines:
                if str(line.get_label()).startswith("_"):
                    continue  # single seeds
                for x, y in line.get_xydata():
                    drawn[axes.get_title("left"), line.get_label(), x] = y
    listed = {
        (row["protocol"], row["method"], float(row["tasks learned"])): (
            float(row["average accuracy %"]),
            float(row["std"]),
        )
        for row in rows(one)
    }
    assert listed.keys() == expected.keys() == drawn.keys()
    for key, (mean, std) in listed.items():
        assert (mean, std) == pytest.approx(expected[key])
        assert drawn[key] == mean


def test_forgetting_of_tasks_has_ff_as_its_mean(tmp_path: Path) -> None:
    make_full_run(tmp_path, "er", parts=[])
    (record,) = Store(tmp_path).select()
    one = figure(loaded_runs(tmp_path), "forgetting")
    for protocol, shown in (("class_il", "Class-IL"), ("task_il", "Task-IL")):
        falls = [float(row["forgetting %"]) for row in rows(one) if row["protocol"] == shown]
        assert len(falls) == 4
        assert np.mean(falls) == pytest.approx(record.facts[f"{protocol}.ff"])


def test_confusion_is_the_sum_over_seeds_as_shares_of_rows(tmp_path: Path) -> None:
    found = two_variants(tmp_path, parts=["confusion"])
    one = figure(found, "confusion-er")
    counts = sum(np.array(run.results["confusion"]) for run in found.variants[0].runs)
    body = [list(row.values())[1:] for row in rows(one)]
    assert np.array_equal(np.array(body, int), counts)
    with canvas.house():
        axes = one.drawn().drawing.axes[0]
        shown = np.asarray(axes.images[0].get_array())
    assert np.allclose(shown, 100 * counts / np.asarray(counts).sum(1, keepdims=True))
    borders = sorted({line.get_xdata()[0] for line in axes.lines if line.get_xdata()[0] != 0})
    assert borders == [1.5, 3.5, 5.5, 7.5]


# --- its words -----------------------------------------------------------------------------------


def told(found: LoadedRuns) -> str:
    """The lead, as one text."""
    return " ".join(text for answer in answers(found) for text in (answer.text, *answer.points))


def pair_of_variants(runs: Path, gaps: Sequence[float]) -> str:
    for seed, gap in enumerate(gaps):
        make_run(runs, "er", seed, 50.0 + seed)
        make_run(runs, "er+bfp", seed, 50.0 + seed + gap)
    return told(loaded_runs(runs))


def test_the_lead_claims_no_more_than_the_interval(tmp_path: Path) -> None:
    clear = pair_of_variants(tmp_path / "clear", [5.0, 5.1, 4.9])
    assert "ER + BFP has the highest mean" in clear
    assert "+5.00 points, 95 % interval 4.75 to 5.25 (3 seeds): it excludes 0." in clear
    unclear = pair_of_variants(tmp_path / "unclear", [5.0, -4.0, 1.0])
    assert "so the difference is within noise" in unclear
    assert "too few for an interval" in pair_of_variants(tmp_path / "one", [5.0])


def test_the_first_two_are_compared_with_a_warning(tmp_path: Path) -> None:
    for seed in range(3):
        make_run(tmp_path, "er", seed, 50.0 + seed)
        make_run(tmp_path, "derpp", seed, 55.0 + seed + 0.1 * seed)
    text = told(loaded_runs(tmp_path))
    assert "DER++ against ER: +5.10 points, 95 % interval 4.85 to 5.35" in text
    assert "chosen by rank" in text


def strong(text: str) -> list[str]:
    """What is bold in a page's tables."""
    return re.findall("<strong>([^<]*)</strong>", text)


def test_a_bound_is_never_the_best(tmp_path: Path) -> None:
    for seed in range(2):
        for method, faa in (("jt", 90.0), ("er", 50.0), ("er+bfp", 60.0)):
            make_run(tmp_path, method, seed, faa)
    text = page(loaded_runs(tmp_path))
    assert set(strong(text)) == {"60.00 ± 0.00", "40.00 ± 0.00", "30.00 ± 0.00"}
    assert "JT (bound)" in text
    with_one_rival = page(load_runs(Store(tmp_path).select("method in ('jt', 'er')")))
    assert strong(with_one_rival) == []


@pytest.mark.usefixtures("_undrawn")
def test_the_audit_finds_what_cannot_be(tmp_path: Path) -> None:
    folder = make_full_run(tmp_path, "er", parts=[])
    assert audit(loaded_runs(tmp_path)) == []
    assert "No finding." in page(loaded_runs(tmp_path))
    results = json.loads((folder / "results.json").read_text())
    results["metrics"]["class_il"]["faa"] = 99.0
    (folder / "results.json").write_text(json.dumps(results))
    assert any("mean peak" in text for text in audit(loaded_runs(tmp_path)))


@pytest.mark.usefixtures("_undrawn")
def test_runs_that_are_not_finished_are_named(tmp_path: Path) -> None:
    make_full_run(tmp_path, "er", parts=[])
    make_run(tmp_path, "derpp", 1)
    damaged = make_full_run(tmp_path, "er", 1, parts=[])
    (damaged / "results.json").write_text('{"met')
    odd = make_full_run(tmp_path, "er", 2, parts=[])
    results = json.loads((odd / "results.json").read_text())
    results["matrices"]["class_il"] = [[0.5, "high"]]
    (odd / "results.json").write_text(json.dumps(results))
    found = loaded_runs(tmp_path)
    assert [run.name for run in found.runs] == ["er-200-s0"]
    assert {name for name, _ in found.left_out} == {"derpp-200-s1", "er-200-s1", "er-200-s2"}
    text = page(found)
    assert "derpp-200-s1: unfinished: not begun" in text
    assert (
        "er-200-s2: damaged: results.json: matrices.class_il.0.1: should be a valid number" in text
    )


def test_seeds_with_other_settings_are_not_averaged(tmp_path: Path) -> None:
    for seed, centred in ((0, False), (1, True), (2, False)):
        folder = make_full_run(tmp_path, "er", seed, parts=["spectrum"])
        path = folder / "analysis" / "spectrum.json"
        content = json.loads(path.read_text()) | {"settings": {"centred": centred}}
        path.write_text(json.dumps(content))
    (group,) = loaded_runs(tmp_path).variants
    assert [one["settings"]["centred"] for one in group.analyses("spectrum")] == [False, False]


def wrong_values(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places in a file's content where something of another type can be put."""
    yield path
    if isinstance(content, dict | list):
        for key in content if isinstance(content, dict) else range(len(content[:2])):
            yield from wrong_values(content[key], (*path, key))


@pytest.mark.parametrize("what", ANALYSES)
def test_no_wrong_value_in_an_analysis_ends_in_a_traceback(what: str, tmp_path: Path) -> None:
    """Each field as text, null, a boolean, a huge number, a deep list: shown or left out."""
    folder = make_full_run(tmp_path, "er+bfp", parts=[what])
    path = folder / "analysis" / f"{what}.json"
    whole = json.loads(path.read_text())
    deep: Any = 1
    for _ in range(50):
        deep = [deep]
    tried = 0
    for place in wrong_values(whole):
        for value in ("x", None, True, 10**400, deep):
            content = json.loads(json.dumps(whole))
            part: Any = content
            for key in place[:-1]:
                part = part[key]
            if place:
                part[place[-1]] = value
            path.write_text(json.dumps(content if place else value))
            found = loaded_runs(tmp_path)
            list(sections(found))
            table(
                what,
                found.comparison.variants,
                {
                    run.record.folder: run.analyses[what]
                    for run in found.runs
                    if what in run.analyses
                },
            )
            tried += 1
    assert tried > 50


@pytest.mark.usefixtures("_undrawn")
def test_hostile_extras_are_as_good_as_none(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return print, ("it was run",)

    folder = make_full_run(tmp_path, "er+bfp", parts=["spectrum", "projection"])
    deep = b"[" * 100_000
    (folder / "events.jsonl").write_bytes(deep)
    (folder / "timing.jsonl").write_bytes(deep + b"\n")
    torch.save({"run": Evil()}, folder / "memory.safetensors")
    spectrum = folder / "analysis" / "spectrum.json"
    content = json.loads(spectrum.read_text())
    content["tasks"][0]["task"] = 10**12
    spectrum.write_text(json.dumps(content))
    projection = folder / "analysis" / "projection.json"
    content = json.loads(projection.read_text())
    for place in content["places"]:
        place["singular_values"] = None  # as of a map that is not linear
    projection.write_text(json.dumps(content))
    found = loaded_runs(tmp_path)
    with pytest.warns(UserWarning, match="left out: .*timing"):
        shown = {section.name for section in sections(found)}
    assert shown == ALWAYS | {"projection"}
    assert "it was run" not in page(found)


# --- looks ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_same_runs_give_the_same_bytes(full: tuple[LoadedRuns, str], tmp_path: Path) -> None:
    found, text = full
    assert text == page(two_variants(tmp_path))
    one = figure(found, "cka")
    for format_ in ("svg", "pdf", "png"):
        assert one.file(format_) == one.file(format_)


# --- hostile text --------------------------------------------------------------------------------


def test_names_stay_text(tmp_path: Path) -> None:
    hostile_run(tmp_path)
    found = loaded_runs(tmp_path)
    text = page(found)
    read = Page(text)
    scripts = [given for tag, given in read.tags if tag == "script"]
    assert scripts == [{"type": "text/plain", "id": "data"}, {}]
    assert not [name for _, given in read.tags for name in given if name.startswith("on")]
    assert HOSTILE in read.texts["h1"][0]
    assert any(HOSTILE in (given.get("alt") or "") for tag, given in read.tags if tag == "img")
    assert all(one.name == canvas.slug(one.name) for one in figures(found))
    drawings = re.findall(r"<svg\b.*?</svg>", text, re.DOTALL)
    assert len(drawings) >= len(figures(found))
    for drawing in drawings:
        tree = ElementTree.fromstring(drawing)  # well-formed
        assert not [e for e in tree.iter() if e.tag.endswith(("script", "foreignObject"))]
    drawn = "".join(ElementTree.fromstring(figure(found, "cka").svg()).itertext())
    assert canvas.clean(title(HOSTILE)) in drawn


def test_nothing_is_loaded_from_anywhere(full: tuple[LoadedRuns, str]) -> None:
    _, text = full
    for tag, given in Page(text).tags:
        for name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
            value = given.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, value)
        assert tag not in ("link", "iframe", "object", "embed", "base")
    for found in re.findall(r"url\(([^)]*)\)", text):
        assert found.startswith("#")
    assert "@import" not in text
    assert "default-src 'none'" in text


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_twenty_runs_with_everything_fit_into_three_and_a_half_megabytes(tmp_path: Path) -> None:
    """The worst there is: every run a variant of its own, a hundred classes, all analyses."""
    for method, weight in product(("er", "derpp", "derpp+bfp", "er+bfp", "icarl"), range(4)):
        settings = {"own": {"weight": weight}}
        make_full_run(tmp_path, method, classes=100, label=str(weight), settings=settings)
    found = loaded_runs(tmp_path)
    assert len(found.variants) == 20
    assert len(page(found).encode()) < 3_500_000


# --- the commands --------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_commands_write_what_they_say(tmp_path: Path) -> None:
    two_variants(tmp_path / "runs", parts=["confusion", "cka", "tsne"])
    said = command("report", "-o", "out/page.html", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "Report of 4 runs: out/page.html" in said.stdout
    whole = (tmp_path / "out/page.html").read_text(encoding="utf-8")
    assert whole == page(loaded_runs(tmp_path / "runs"))
    words = ("report", "--where", "method='er'", "--figures", "pictures", "--format", "svg,png,pdf")
    said = command(*words, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    names = {path.name for path in (tmp_path / "pictures").iterdir()}
    stems = {name.rpartition(".")[0] for name in names}
    assert names == {f"{stem}.{end}" for stem in stems for end in ("svg", "png", "pdf", "csv")}
    assert {"cka", "confusion-er", "plane-er", "forgetting"} <= stems
    for name in names:
        start = (tmp_path / "pictures" / name).read_bytes()[:8]
        magic = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}
        assert start.startswith(magic.get(name.rpartition(".")[2], b""))


def test_the_page_is_opened_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import webbrowser

    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)  # which returns None: no browser
    make_run(tmp_path / "runs", "er", 0, 50.0)
    said = command("report", "-o", "a page.html", cwd=tmp_path)
    assert (said.returncode, opened) == (0, [])
    assert said.stdout.startswith("Report of 1 run: a page.html (")
    said = command("report", "-o", "a page.html", "--open", cwd=tmp_path)
    assert said.returncode == 0
    assert opened == [(tmp_path / "a page.html").as_uri()]
    assert "open a page.html yourself" in said.stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("report",), "there are no runs in runs"),
        (("report", "--runs", "unfinished"), "no finished run among the 1 asked for"),
        (("report", "nowhere"), "nowhere is not a run"),
        (("report", "--runs", "good", "-o", "a-file/page.html"), "cannot write"),
        (("report", "--runs", "good", "--format", "svg,gif"), "unknown format 'gif'"),
        (("report", "--runs", "good", "--format", ","), "at least one of svg, pdf, png"),
    ],
)
def test_what_cannot_be_is_one_line(words: tuple[str, ...], why: str, tmp_path: Path) -> None:
    make_run(tmp_path / "unfinished", "er", 0)
    make_run(tmp_path / "good", "er", 0, 50.0)
    (tmp_path / "a-file").touch()
    said = command(*words, cwd=tmp_path)
    assert said.returncode == 2
    assert said.stderr.startswith("error: ")
    assert said.stderr.count("\n") == 1
    assert why in said.stderr


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_what_is_missing_is_said(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "runs", "er", 0, 50.0)
    monkeypatch.setitem(sys.modules, package, None)
    said = command("report", cwd=tmp_path)
    assert said == (2, "", f"error: a report needs {package}: pip install 'linsep[plot]'\n")


@pytest.mark.slow
def test_the_report_of_a_grid_is_of_its_runs(tmp_path: Path) -> None:
    """A real, tiny grid; its report gives a file that plans the same runs again."""
    (tmp_path / "grid.toml").write_text(
        'memory = 20\n[scenario]\nname = "blobs"\ntrain = 10\ntest = 5\n[training]\nepochs = 1\n'
        '[over]\nmethod = ["ft", "er+bfp"]\nseed = [0, 1]\n'
    )
    said = command("grid", "grid.toml", "--workers", "1", "--quiet", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    make_run(tmp_path / "runs", "derpp", 0, 50.0)
    said = command("report", "--grid", "grid.toml", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "Report of 4 runs" in said.stdout
    from linsep.report.words import recipes

    (recipe,) = recipes(load_runs(Store(tmp_path / "runs").select("scenario=blobs")))
    assert recipe.command == "linsep grid grid.toml"
    (tmp_path / "again.toml").write_text(recipe.content)
    said = command("grid", "again.toml", "--dry-run", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("finished  ") >= 4
    assert "new" not in said.stdout.split()


def test_a_report_without_analyses_and_memory_imports_no_torch(tmp_path: Path) -> None:
    make_full_run(tmp_path, "er", parts=["confusion", "events", "timing", "environment"])
    program = (
        "import sys; from pathlib import Path; from linsep.report.gather import load_runs; "
        "from linsep.report.page import page; from linsep.storage.store import Store; "
        "page(load_runs(Store(Path(sys.argv[1])).select())); sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert done.returncode == 0
