"""A browser that opens nothing: it keeps the addresses that it was started with."""

import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest


@dataclass
class RecordedBrowser(webbrowser.BaseBrowser):
    """One that starts, or one that cannot, as on a host without a screen."""

    starts: bool = True
    opened: list[str] = field(default_factory=list)

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:  # noqa: FBT001, FBT002 (as the real one)
        self.opened.append(url)
        return self.starts


@contextmanager
def only_browser(browser: RecordedBrowser) -> Iterator[RecordedBrowser]:
    """Python finds this browser, and no other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(webbrowser, "_tryorder", [])
        patch.setattr(webbrowser, "_browsers", {})
        webbrowser.register("recorded", None, browser)
        yield browser
