"""The site: builds without a warning, and works in a browser without asking anybody anything."""

import functools
import http.server
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import linsep
from tests.helpers.browser import browser as browser
from tests.helpers.browser import requests, severe

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
PATIENCE = 60  # seconds, on a machine with other work


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


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    html = (site / "api.html").read_text("utf-8")
    for name in linsep.__all__:
        assert f'id="linsep.{name}"' in html, name


def test_no_page_names_another_host(site: Path) -> None:
    """In what a browser loads: sources of scripts, styles, images and fonts, but not links."""
    loads = re.compile(r"""src=["']https?:|url\(["']?https?:|<link [^>]*href=["']https?:""")
    for page in [*site.rglob("*.html"), *site.rglob("*.css")]:
        found = loads.findall(page.read_text("utf-8"))
        assert not found, f"{page.name} has {found}"


def test_a_reader_finds_the_way(browser: Any, address: str) -> None:
    """Tabs, search, and copying code; no error on the console, no request to another host."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    wait = WebDriverWait(browser, PATIENCE)
    requests(browser)  # of another page
    severe(browser)
    browser.get(f"{address}/index.html")
    browser.find_element(By.CSS_SELECTOR, ".md-tabs").find_element(By.LINK_TEXT, "Methods").click()
    wait.until(lambda page: page.title.startswith("Methods"))
    browser.find_element(By.LINK_TEXT, "derpp").click()
    wait.until(lambda page: page.title.startswith("DER++"))
    assert browser.find_elements(By.CSS_SELECTOR, "button.md-clipboard, .md-code__nav button")

    browser.find_element(By.CSS_SELECTOR, "label.md-search__icon, .md-search__input").click()
    browser.find_element(By.CSS_SELECTOR, ".md-search__input").send_keys("forgetting")
    found = ".md-search-result__link"
    wait.until(lambda page: page.find_elements(By.CSS_SELECTOR, found))

    assert not severe(browser)
    asked = requests(browser)
    assert asked
    assert all(url.startswith((address, "data:", "blob:")) for url in asked), asked
