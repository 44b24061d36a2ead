"""What all tests need, also where two of them run at once."""

import sys


def pytest_configure() -> None:
    """Let Spark be imported by workers: it ends a process whose main module has no file as its own doctests'."""
    main = sys.modules["__main__"]
    if not hasattr(main, "__file__"):
        main.__file__ = "a worker"
