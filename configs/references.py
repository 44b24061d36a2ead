"""Do the functions that a declaration names exist? Answered by importing their modules.

Only `holdfast check` asks: a user's module may import Spark, which takes seconds.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from configs.deployment import Deployment, Function
from configs.loading import Document, Loc, Problem, suggestion
from configs.sinks import CallableSink
from configs.sources import FilesSource
from configs.stream import StreamDeclaration
from ft_policies.errors import PermanentError

Named: TypeAlias = tuple[Loc, str | None]


def named_by_stream(stream: StreamDeclaration) -> list[Named]:
    """Every `module:function` in a declaration, and where it is."""
    named: list[Named] = [
        (("app",), stream.app),
        (("expectations",), stream.expectations),
    ]
    if isinstance(stream.sink, CallableSink):
        named.append((("sink", "function"), stream.sink.function))
    if isinstance(stream.source, FilesSource) and stream.source.dead_letters is not None:
        named.append((("source", "dead_letters", "rules"), stream.source.dead_letters.rules))
    return named


def named_by_deployment(deployment: Deployment) -> list[Named]:
    """The same in what all streams share."""
    return [
        (("notify", number, "function"), told.function)
        for number, told in enumerate(deployment.notify)
        if isinstance(told, Function)
    ]


def check_references(
    root: Path, document: Document, named: Iterable[Named], *, code: str | None = None
) -> list[Problem]:
    """What is wrong with the functions that a document names, and with the folder of its code."""
    folder = root if code is None else root / Path(code).expanduser()
    if not folder.is_dir():
        return [document.problem(("code",), "there is no such folder", value=code)]
    with _importing_from(root, folder):
        return [
            document.problem(loc, fault, value=reference)
            for loc, reference in named
            if reference is not None and (fault := _fault(reference))
        ]


def _fault(reference: str) -> str | None:
    name, _, function = reference.partition(":")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        return f"there is no module {error.name} in the project or the environment"
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything
        return f"module {name} fails on import: {type(error).__name__}: {error}"
    found = getattr(module, function, None)
    if callable(found):
        return None
    if found is not None:
        return f"{function} is not a function"
    functions = [key for key, value in vars(module).items() if key[0] != "_" and callable(value)]
    return f"module {name} has no function {function}: {suggestion(function, functions)}"


@contextmanager
def _importing_from(root: Path, code: Path) -> Iterator[None]:
    """As a driver of the stream would; modules of its own code are forgotten, for the next may have others."""
    before, known = sys.path[:], set(sys.modules)
    sys.path[:0] = [str(code), str(root)]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before
        for name in (sys.modules.keys() - known) if code != root else ():
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(code)):
                del sys.modules[name]


def load(reference: str) -> Callable[..., Any]:
    """Import the function that a declaration names."""
    module_name, _, name = reference.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise PermanentError(
            f"cannot load {reference}: {error}",
            hint="`holdfast check` tests all references; is the module below the project folder?",
        ) from error
    if not callable(function):
        raise PermanentError(f"{reference} is not a function", hint="name a function of the module")
    return function  # type: ignore[no-any-return]
