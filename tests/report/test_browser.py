"""The report in a real browser: no error, no request, and what a reader does with it works.

Needs selenium, Chromium and its driver; skipped with a reason where one is missing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from linsep.report.gather import load_runs
from linsep.report.page import page
from linsep.storage.store import Store
from tests.helpers.browser import browser as browser
from tests.helpers.browser import requests, severe
from tests.helpers.made_reports import HOSTILE, hostile_run, make_full_run

pytestmark = pytest.mark.slow

DOWNLOADS = {"svg": b"<svg", "png": b"\x89PNG", "csv": b"data,method"}  # how each file starts
PATIENCE = 60  # seconds, on a machine with other work


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    for method in ("er", "er+bfp", "jt"):
        for seed in range(2):
            make_full_run(runs, method, seed)
    path = runs / "report.html"
    path.write_text(page(load_runs(Store(runs).select())), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Any, report: Path) -> Any:
    browser.get("about:blank")  # a page that is loaded again may still be there for a moment
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(report.as_uri())
    settle(browser)
    return browser


def settle(browser: Any) -> None:
    """Wait until a page is loaded and its script has run."""
    script = "return document.readyState === 'complete' && !!document.querySelector('th button')"
    wait_for(browser, lambda: bool(browser.execute_script(script)), lambda: said(browser))


def reload(browser: Any) -> None:
    browser.execute_script("document.querySelectorAll('th button').forEach(b => b.remove())")
    browser.refresh()
    settle(browser)


def column(browser: Any, number: int) -> list[str]:
    script = "return [...document.querySelectorAll('table')[0].tBodies[0].rows].map("
    return browser.execute_script(script + "row => row.cells[arguments[0]].innerText)", number)


def centre(browser: Any, element: Any) -> None:
    """Scroll an element to the middle, and wait until the page is still."""
    browser.execute_async_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'});"
        "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(arguments[1], 50)))",
        element,
    )


def hover(browser: Any, element: Any, expected: str) -> None:
    """Point at an element until the text that is shown there contains what is expected.

    Scrolling hides what is shown, in a frame that may come late: then the mouse moves once more.
    """
    from selenium.webdriver.common.action_chains import ActionChains

    centre(browser, element)
    ways = cycle((-1, 1))

    def shown() -> bool:
        ActionChains(browser).move_to_element_with_offset(element, next(ways), 0).perform()
        return expected in tip(browser)

    wait_for(browser, shown, lambda: f"no {expected!r} in {tip(browser)!r}")


def tip(browser: Any) -> str:
    script = "const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.textContent"
    return str(browser.execute_script(script))


def wait_for(
    browser: Any, holds: Callable[[], bool], otherwise: Callable[[], str] = lambda: ""
) -> None:
    """Until something holds; a failure tells what `otherwise` found instead."""
    from selenium.common.exceptions import TimeoutException
    from selenium.webdriver.support.ui import WebDriverWait

    try:
        WebDriverWait(browser, PATIENCE, poll_frequency=0.1).until(lambda _: holds())
    except TimeoutException:
        pytest.fail(f"not within {PATIENCE} s. {otherwise()}")


def said(browser: Any) -> str:
    return f"console: {[message['message'] for message in browser.get_log('browser')]}"


def test_nothing_goes_wrong_and_nothing_is_asked_for(opened: Any) -> None:
    assert severe(opened) == []
    urls = requests(opened)
    assert urls
    assert all(url.startswith(("file:", "data:", "blob:")) for url in urls), urls


def test_a_click_on_a_head_sorts(opened: Any) -> None:
    heads = opened.find_elements("css selector", "#numbers table:first-of-type thead th button")
    assert heads[1].text.startswith("Final average accuracy (FAA)")
    numbers = [float(text.partition(" ")[0]) for text in column(opened, 1)]
    assert numbers == sorted(numbers, reverse=True)  # before any click
    heads[1].click()
    assert [float(text.partition(" ")[0]) for text in column(opened, 1)] == numbers
    heads[1].send_keys("\n")
    assert [float(text.partition(" ")[0]) for text in column(opened, 1)] == numbers[::-1]
    heads[0].click()
    assert [text.strip() for text in column(opened, 0)] == ["ER", "ER + BFP", "JT (bound)"]


def test_details_are_folded_until_a_link_leads_to_them(opened: Any) -> None:
    folded = opened.find_elements("css selector", "details.whole")
    assert [fold.find_element("css selector", "h2").text for fold in folded] == [
        "Contents of the memory",
        "Time",
        "Audit of the metrics",
    ]
    assert [fold.get_attribute("open") for fold in folded] == [None] * 3
    link = opened.find_element("css selector", "nav a[href='#time']")
    centre(opened, link)
    link.click()
    wait_for(opened, lambda: bool(folded[1].get_attribute("open")))
    assert [fold.get_attribute("open") for fold in folded] == [None, "true", None]
    summary = folded[2].find_element("css selector", "summary")
    centre(opened, summary)
    summary.click()
    assert folded[2].get_attribute("open") == "true"


def test_values_are_shown_by_mouse_and_by_keyboard(opened: Any) -> None:
    cell = opened.find_element("css selector", "#figure-accuracy-matrix-er .spots rect")
    hover(opened, cell, "after task 1, on task 1: ")
    point = opened.find_element("css selector", "#figure-accuracy-over-tasks .spots circle")
    hover(opened, point, "ER, tasks learned 1: ")
    grid = opened.find_element("css selector", "#figure-confusion-er .grid")
    hover(opened, grid, " predicted as ")
    drawing = opened.find_element("css selector", "#figure-confusion-er svg")
    opened.execute_script("arguments[0].focus()", drawing)
    drawing.send_keys("\ue014")  # arrow right
    wait_for(opened, lambda: tip(opened).startswith("0 class 0 predicted as 0 class 0: "))


def test_the_theme_is_switched_and_remembered(opened: Any) -> None:
    def paper() -> str:
        return str(opened.execute_script("return getComputedStyle(document.body).backgroundColor"))

    opened.execute_script("localStorage.removeItem('linsep-theme')")
    reload(opened)
    light = paper()
    opened.find_element("id", "theme").click()
    dark = paper()
    assert dark != light
    axis = opened.execute_script(
        "return getComputedStyle(document.querySelector('#figure-accuracy-over-tasks text')).fill"
    )
    ink = opened.execute_script("return getComputedStyle(document.body).color")
    assert axis == ink
    reload(opened)
    assert paper() == dark
    opened.find_element("id", "theme").click()
    assert paper() == light


# --- choosing methods ----------------------------------------------------------------------------


def key(browser: Any, name: str) -> Any:
    """A method's button in the legend of the page."""
    buttons = browser.find_elements("css selector", "#legend button.key")
    (one,) = [b for b in buttons if b.get_attribute("textContent").strip() == name]
    return one


def visible(browser: Any, css: str) -> list[Any]:
    script = "return [...document.querySelectorAll(arguments[0])]"
    shown = ".filter(e => e.getClientRects().length)"
    return list(browser.execute_script(script + shown, css))


def methods_shown(browser: Any) -> set[str]:
    """Of the first table."""
    rows = visible(browser, "#numbers .results tbody tr")
    return {row.find_elements("css selector", "td")[0].text for row in rows if row.text}


def test_a_method_is_hidden_and_shown_everywhere_by_its_key(opened: Any) -> None:
    variant = key(opened, "ER + BFP").get_attribute("data-variant")
    parts = f"[data-variant='{variant}']:not(.key)"
    before = len(visible(opened, parts))
    figures = {f.get_attribute("data-name") for f in visible(opened, "figure[data-name]")}
    assert before > 20
    assert {"gains", "confusion-er+bfp", "accuracy-over-tasks"} <= figures
    key(opened, "ER + BFP").click()
    assert key(opened, "ER + BFP").get_attribute("aria-pressed") == "false"
    assert key(opened, "ER").get_attribute("aria-pressed") == "true"
    assert visible(opened, parts) == []  # lines, bands, dots, rows, matrices
    assert methods_shown(opened) == {"ER", "JT (bound)"}
    left = {f.get_attribute("data-name") for f in visible(opened, "figure[data-name]")}
    assert figures - left == {name for name in figures if name.endswith("er+bfp")}
    opened.find_element("css selector", "#numbers th:nth-child(2) button").click()
    assert methods_shown(opened) == {"ER", "JT (bound)"}  # sorting brings nothing back
    key(opened, "ER + BFP").click()
    assert len(visible(opened, parts)) == before
    assert severe(opened) == []


def test_a_figure_is_downloaded_as_it_is_shown(opened: Any, tmp_path: Path) -> None:
    where = {"behavior": "allow", "downloadPath": str(tmp_path)}
    opened.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    key(opened, "ER").click()
    button = opened.find_element("css selector", "#figure-cka .get button[title$='cka.svg']")
    centre(opened, button)
    button.click()
    wait_for(opened, (tmp_path / "cka.svg").exists, lambda: seen_in(tmp_path))
    drawn = (tmp_path / "cka.svg").read_text(encoding="utf-8")
    assert "ER + BFP" in drawn
    assert ">ER<" not in drawn


# --- small and large pages -----------------------------------------------------------------------


@contextmanager
def sized(browser: Any, width: int, *, mobile: bool) -> Iterator[None]:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": mobile}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        reload(browser)
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def smallest_text(browser: Any) -> float:
    """Of all figures, in pixels as rendered."""
    return float(
        browser.execute_script(
            "return Math.min(...[...document.querySelectorAll('.drawing svg')].flatMap(svg => {"
            "const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;"
            "return [...svg.querySelectorAll('text')].map("
            "t => scale * parseFloat(getComputedStyle(t).fontSize))}))"
        )
    )


def test_a_phone_shows_cards_and_scrolls_within_figures_only(opened: Any) -> None:
    with sized(opened, 390, mobile=True):
        wide = "return document.documentElement.scrollWidth"
        assert opened.execute_script(wide) <= 390
        opened.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert opened.execute_script(wide) <= 390
        sizes = "return [arguments[0].scrollWidth, arguments[0].clientWidth]"
        for table in opened.find_elements("css selector", ".scroll:has(> table)"):
            inner, outer = opened.execute_script(sizes, table)
            assert inner <= outer  # no number is cut
        cell = opened.find_element("css selector", ".results tbody td:nth-child(2)")
        label = "return getComputedStyle(arguments[0], '::before').content"
        assert opened.execute_script(label, cell) == '"Final average accuracy (FAA)"'
        box = opened.find_element("css selector", "#over-tasks .scroll")
        inner, outer = opened.execute_script(sizes, box)
        assert inner > outer  # there is more to see,
        hint = "return getComputedStyle(arguments[0]).backgroundImage"
        assert opened.execute_script(hint, box).count("gradient") == 4  # which a shadow shows,
        opened.execute_script("arguments[0].scrollLeft = 1e6", box)
        assert opened.execute_script("return arguments[0].scrollLeft", box) == inner - outer
        assert smallest_text(opened) >= 11


def test_paper_shows_everything_in_black_on_white(opened: Any) -> None:
    opened.execute_script("document.documentElement.dataset.theme = 'dark'")
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        style = "return getComputedStyle(document.body)"
        assert opened.execute_script(f"{style}.color") == "rgb(0, 0, 0)"
        assert opened.execute_script(f"{style}.backgroundColor") == "rgb(255, 255, 255)"
        hidden = opened.execute_script(
            "return [...document.querySelectorAll('h2, table, figure, svg')].filter(e => "
            "!e.closest('details:not([open])') && !e.getClientRects().length).length"
        )
        assert hidden == 0
        opened.execute_script("dispatchEvent(new Event('beforeprint'))")
        assert opened.find_elements("css selector", "details:not([open])") == []
        assert opened.find_elements("css selector", "details[open]")
        opened.execute_script("dispatchEvent(new Event('afterprint'))")
        assert opened.find_elements("css selector", "details[open]") == []
        printed = opened.execute_cdp_cmd("Page.printToPDF", {})["data"]
        assert len(printed) > 50_000
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def seen_in(folder: Path) -> str:
    return f"files: {sorted(path.name for path in folder.iterdir())}"


def test_a_name_that_is_a_script_stays_text(browser: Any, tmp_path: Path) -> None:
    from selenium.common.exceptions import NoAlertPresentException

    hostile_run(tmp_path / "runs")
    path = tmp_path / "report.html"
    path.write_text(page(load_runs(Store(tmp_path / "runs").select())), encoding="utf-8")
    browser.get_log("browser")
    browser.get(path.as_uri())
    settle(browser)
    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert.text
    assert HOSTILE in browser.find_element("tag name", "h1").text
    assert severe(browser) == []
    assert len(browser.find_elements("css selector", "script")) == 2
    browser.execute_script("document.querySelector('#memory details').open = true")
    spot = browser.find_element("css selector", "#memory .spots rect")
    hover(browser, spot, "<script>alert(1)</script>")
