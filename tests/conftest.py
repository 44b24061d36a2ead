"""What all tests need, also where two of them run at once."""

import signal
import sys

import pytest
from hypothesis import settings

from tests.order import file_rank

settings.register_profile(
    "any machine", deadline=None
)  # a slow example on a busy machine is no failure
settings.load_profile("any machine")


def pytest_configure() -> None:
    """Let workers import Spark: it takes a process whose main module has no file for its own doctests.

    It has to be a file that can be run: processes that a test starts import their parent's main module.

    Ctrl-C is not ignored, also if a shell has started the tests in the background: Dagster would hand that on to
    SIGTERM, and processes that inherit it would end only when they are killed.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main = sys.modules["__main__"]
    if not hasattr(main, "__file__"):
        main.__file__ = __file__


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files; the order of the tests within a file stays."""
    items.sort(key=lambda item: file_rank(item.nodeid))
