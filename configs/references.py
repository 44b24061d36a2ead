"""The functions that declarations name as `module:function`: loading one, and checking all of them.

A check imports the modules, and a user's module may import Spark, which takes seconds; so only `holdfast check`
does it. Spark's workers import this module, too: it does not import the YAML parser before a check needs it.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.configs.deployment import Deployment, Function
from holdfast.configs.sinks import CallableSink
from holdfast.configs.sources import FilesSource
from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.errors import PermanentError

if TYPE_CHECKING:
    from holdfast.configs.loading import Document, Problem

NamedFunction: TypeAlias = tuple[tuple[int | str, ...], str | None]
"""The place in the document, and `module:function` if it is set."""


def load(reference: str) -> Callable[..., Any]:
    """Import the function that a declaration names; `PermanentError` if that fails."""
    module_name, _, name = reference.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise PermanentError(
            f"cannot load {reference}: {error}",
            hint="put the module below the project folder; run `holdfast check` to test all references",
        ) from error
    if not callable(function):
        raise PermanentError(f"{reference} is not a function", hint="name a function of the module")
    return function  # type: ignore[no-any-return]


def list_stream_functions(stream: StreamDeclaration) -> list[NamedFunction]:
    """Every `module:function` in a declaration, with its place."""
    functions: list[NamedFunction] = [
        (("app",), stream.app),
        (("expectations",), stream.expectations),
    ]
    if isinstance(stream.sink, CallableSink):
        functions.append((("sink", "function"), stream.sink.function))
    if isinstance(stream.source, FilesSource) and stream.source.dead_letters is not None:
        functions.append((("source", "dead_letters", "rules"), stream.source.dead_letters.rules))
    return functions


def list_notify_functions(deployment: Deployment) -> list[NamedFunction]:
    """Every `module:function` in `notify`, with its place."""
    return [
        (("notify", number, "function"), target.function)
        for number, target in enumerate(deployment.notify)
        if isinstance(target, Function)
    ]


def check_references(
    root: Path, document: "Document", functions: Iterable[NamedFunction], *, code: str | None = None
) -> "list[Problem]":
    """Import each function as a driver of the stream would; `code` is the stream's own code folder."""
    folder = root if code is None else root / Path(code).expanduser()
    if not folder.is_dir():
        return [document.problem_at(("code",), "folder not found", value=code)]
    with _importing_from(root, folder):
        return [
            document.problem_at(loc, fault, value=reference)
            for loc, reference in functions
            if reference is not None and (fault := _find_fault(reference))
        ]


def _find_fault(reference: str) -> str | None:
    from holdfast.configs.loading import suggest_name

    name, _, function = reference.partition(":")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        return f"module {error.name} not found: it is neither in the project nor in the environment"
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything
        return f"module {name} fails on import: {type(error).__name__}: {error}"
    value = getattr(module, function, None)
    if callable(value):
        return None
    if value is not None:
        return f"{function} is not a function"
    functions = [key for key, item in vars(module).items() if key[0] != "_" and callable(item)]
    return f"module {name} has no function {function}: {suggest_name(function, functions)}"


@contextmanager
def _importing_from(root: Path, code: Path) -> Iterator[None]:
    """Import as a driver of the stream does.

    Modules of the stream's own code are unloaded afterwards: another stream may have others of the same names.
    """
    path_before, modules_before = sys.path[:], set(sys.modules)
    sys.path[:0] = [str(code), str(root)]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = path_before
        for name in (sys.modules.keys() - modules_before) if code != root else ():
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(code)):
                del sys.modules[name]
