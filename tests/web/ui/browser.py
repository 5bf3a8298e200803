"""A browser without a screen, for tests of the pages: Debian's chromium by selenium."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TypeVar

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
DEADLINE_S = 60.0
SIZE = (1280, 900)
_LOOK_S = 0.05
_LOOKS_A_REFRESH = 20
#: A browser says itself that an answer was no success; whether that was wanted, the tests know.
NETWORK = "Failed to load resource"

T = TypeVar("T")


def why_none() -> str:
    """What is missing for these tests; empty if nothing is."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{', '.join(missing)} not installed: apt-get install chromium chromium-driver" if missing else ""


class Browser:
    """One window. url: of the management process that it looks at; user: who has logged in there, if that is known."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self.url = self.user = ""

    def visit(self, url: str) -> None:
        """As somebody who comes for the first time."""
        self.url, self.user = url.rstrip("/"), ""
        self.driver.get(f"{self.url}/")
        self.find("body > *")
        self.driver.delete_all_cookies()
        self.driver.execute_script("localStorage.clear(); sessionStorage.clear()")
        self.driver.set_window_size(*SIZE)
        self.driver.get(f"{self.url}/")
        self.driver.refresh()

    def log_in(self, user: str = "guest", password: str = "guest") -> None:
        self.user = user
        self.find("input[name=username]").send_keys(user)
        self.find("input[name=password]").send_keys(password + Keys.ENTER)
        self.find("#top")

    def go(self, place: str) -> None:
        """A place is what comes after the #. Returns when its page stands."""
        self.driver.execute_script("location.hash = arguments[0]", f"#/{place}")
        self.find("main h1, main .message")

    def find(self, selector: str) -> WebElement:
        """The first that is seen, as soon as there is one."""
        return self.until(lambda: next((each for each in self.all(selector) if each.is_displayed()), None), selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """Of elements that may be drawn anew meanwhile."""
        script = "return [...document.querySelectorAll(arguments[0])].map(each => each.textContent)"
        return list(self.driver.execute_script(script, selector))

    def press(self, keys: str) -> None:
        webdriver.ActionChains(self.driver).send_keys(keys).perform()

    def click(self, selector: str, text: str = "") -> None:
        def clicked() -> bool:
            for each in self.all(selector):
                if each.is_displayed() and text in each.text:
                    each.click()
                    return True
            return False

        self.until(clicked, f"{selector} {text!r}")

    def until(self, look: Callable[[], T | None], what: str = "") -> T:
        """What `look` finds at last. Pages refresh themselves in seconds; meanwhile they are asked to."""
        waiting = WebDriverWait(self.driver, DEADLINE_S, _LOOK_S, [StaleElementReferenceException])
        looks = count(1)

        def seen(_: webdriver.Chrome) -> T | bool:
            if next(looks) % _LOOKS_A_REFRESH == 0:
                self.driver.execute_script("document.dispatchEvent(new CustomEvent('refresh'))")
            return look() or False

        try:
            found = waiting.until(seen)
        except TimeoutException:
            body = self.driver.find_element(By.TAG_NAME, "body").text[:2000]
            said = f"not seen in {DEADLINE_S} s: {what}\n{body}\n{self.complaints(True)}"
            raise AssertionError(said) from None
        assert found
        return found

    def complaints(self, network: bool = False) -> list[str]:
        """What the console says is wrong."""
        said = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        entries = [each["message"] for each in said if each["level"] in ("SEVERE", "WARNING")]
        return [each for each in entries if network or NETWORK not in each]


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A fresh profile each."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={SIZE[0]},{SIZE[1]}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
