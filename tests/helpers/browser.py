"""A browser without a window, if there are selenium, Chromium and its driver; else a skipped test.

A test module that imports `browser` has it as a fixture.
"""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    pytest.importorskip("selenium", reason="selenium is not installed")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("there is no Chromium or no chromedriver here")
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = program
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
    for flag in (*flags, "--window-size=1400,900"):
        options.add_argument(flag)
    # A page may not ask whether it may save several files: nobody is there to answer.
    allowed = {"profile.default_content_setting_values.automatic_downloads": 1}
    options.add_experimental_option("prefs", allowed)
    logs = {"browser": "ALL", "performance": "ALL"}
    options.set_capability("goog:loggingPrefs", logs)
    started = webdriver.Chrome(options=options, service=Service(driver))
    yield started
    started.quit()


def severe(browser: Any) -> list[Any]:
    """The errors on the console since last asked for."""
    return [m for m in browser.get_log("browser") if m["level"] == "SEVERE"]


def requests(browser: Any) -> list[str]:
    """The addresses that were asked for since then."""
    log = browser.get_log("performance")
    sent = [json.loads(entry["message"])["message"] for entry in log]
    return [
        m["params"]["request"]["url"] for m in sent if m["method"] == "Network.requestWillBeSent"
    ]
