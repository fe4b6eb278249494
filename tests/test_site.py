"""The site: builds without a warning, and works in a browser without asking anybody anything."""

import functools
import http.server
import inspect
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

import linsep
from linsep.cli.commands import app
from tests.helpers.browser import browser as browser
from tests.helpers.browser import requests, severe

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'linsep[docs]'")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_every_public_name_and_method_is_in_the_reference(site: Path) -> None:
    html = (site / "api.html").read_text("utf-8")
    for name in linsep.__all__:
        assert f'id="linsep.{name}"' in html, name
    for name in linsep.__all__:
        for member in _methods(getattr(linsep, name)):
            assert f'id="linsep.{name}.{member}"' in html, f"{name}.{member}"
    assert 'id="linsep.avalanche.BFPPlugin"' in html


def _methods(public: object) -> set[str]:
    """Methods that linsep defines, on the class or on one that it inherits from."""
    own = [base for base in getattr(public, "__mro__", ()) if base.__module__.startswith("linsep")]
    found = [(k, v) for base in own for k, v in vars(base).items() if not k.startswith("_")]
    methods = {k for k, v in found if inspect.isfunction(v) or isinstance(v, classmethod)}
    return methods - {"model_post_init"}  # pydantic's


def test_every_command_and_flag_is_in_the_reference(site: Path) -> None:
    html = unescape((site / "commands.html").read_text("utf-8"))
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    for name, command in root.commands.items():
        assert f"<code>linsep {name}</code>" in html, name
        for flag in command.params:
            assert flag.name == "help" or flag.opts[0] in html or str(flag.name).upper() in html


def test_no_page_names_another_host(site: Path) -> None:
    """In what a browser loads: sources of scripts, styles, images and fonts, but not links."""
    loads = re.compile(r"""src=["']https?:|url\(["']?https?:|<link [^>]*href=["']https?:""")
    for page in [*site.rglob("*.html"), *site.rglob("*.css")]:
        found = loads.findall(page.read_text("utf-8"))
        assert not found, f"{page.name} has {found}"


def test_every_page_is_reached_from_the_navigation(site: Path) -> None:
    """But for the sources that pages link to. The entrance has all of it, in a menu."""
    home = (site / "index.html").read_text("utf-8")
    menu = home.partition('class="md-nav md-nav--primary')[2].partition("</nav>\n</div>")[0]
    linked = set(re.findall(r'<a href="([^"#]+)" class="md-nav__link', menu))
    pages = {page.relative_to(site).as_posix() for page in site.rglob("*.html")}
    apart = {page for page in pages if page.startswith("source/")} | {"404.html", "index.html"}
    assert pages - apart <= linked, sorted(pages - apart - linked)


def test_cells_name_their_columns(site: Path) -> None:
    for page in site.rglob("*.html"):
        labels = re.findall(r'data-label="([^"]*)"', page.read_text("utf-8"))
        assert not [label for label in labels if "&lt;" in label], page.name


def test_every_page_is_described(site: Path) -> None:
    for page in site.glob("**/*.html"):
        if page.relative_to(site).parts[0] not in ("source", "404.html"):
            text = page.read_text("utf-8")
            assert re.search(r'<meta name="description" content="[^"]{30}', text), page.name


def test_every_methods_page_has_a_figure_with_a_text_alternative(site: Path) -> None:
    for page in (site / "methods").glob("*.html"):
        if page.stem in ("index", "slda"):  # those train nothing, so there is no step to draw
            continue
        html = page.read_text("utf-8")
        found = re.search(rf'<img alt="([^"]+)" src="\.\./figures/methods/{page.stem}\.svg"', html)
        assert found, page.name
        assert len(found[1]) > 60
        assert (site / "figures" / "methods" / f"{page.stem}.svg").stat().st_size < 6000
        assert "<math" in html, f"{page.name} has no formula"


@pytest.fixture
def visited(browser: Any, address: str) -> Iterator[Any]:
    """A browser whose visit must leave no error on the console and ask no other host."""
    requests(browser)  # of another page
    severe(browser)
    yield browser
    assert not severe(browser)
    asked = requests(browser)
    assert asked
    assert all(url.startswith((address, "data:", "blob:")) for url in asked), asked


NARROW = ("index", "api", "commands", "settings", "evidence", "methods/index", "methods/lucir")


def test_no_page_is_wider_than_a_phone(visited: Any, address: str) -> None:
    """Tables, code and formulas scroll by themselves; every picture has loaded."""
    phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    visited.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    images = "return [...document.images].every(image => image.complete && image.naturalWidth > 0)"
    try:
        for page in NARROW:
            visited.get(f"{address}/{page}.html")
            wide = visited.execute_script("return document.documentElement.scrollWidth")
            assert wide <= 390, page
            assert visited.execute_script(images), page
    finally:
        visited.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
