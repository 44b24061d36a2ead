"""The functions that declarations name as `module:function`: loading one, and checking all of them.

A check imports the modules, and a user's module may import Spark, which takes seconds; so only `holdfast check`
does it, in a process of its own. Spark's workers import this module, too: it does not import the YAML parser before a check needs it.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.configs.deployment import Deployment, Function
from holdfast.configs.sinks import CallableSink
from holdfast.configs.sources import FilesSource
from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.errors import PermanentError

if TYPE_CHECKING:
    from holdfast.configs.loading import Document, Problem

IMPORT_SECONDS = 60.0
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
    named = [(loc, reference) for loc, reference in functions if reference is not None]
    faults = _find_faults([reference for _, reference in named], root, folder)
    return [
        document.problem_at(loc, fault, value=reference)
        for (loc, reference), fault in zip(named, faults, strict=True)
        if fault is not None
    ]


def _find_faults(references: list[str], root: Path, code: Path) -> list[str | None]:
    """A fault for each reference; a process that ends or hangs counts for the one that it has reached."""
    faults: list[str | None] = []
    while len(faults) < len(references):
        ended, found = _import_in_child(references[len(faults) :], root, code)
        faults += found
        if len(faults) < len(references):
            module = references[len(faults)].partition(":")[0]
            faults.append(f"module {module} {ended}: it must be importable without side effects")
    return faults


def _import_in_child(references: list[str], root: Path, code: Path) -> tuple[str, list[str | None]]:
    """How the process ended, and what it found out until then."""
    path = [str(code), str(root), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in path if part)}
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        results.touch()
        command = [sys.executable, "-P", "-m", "holdfast.configs.import_check", str(results)]
        exit_code = _run_bounded([*command, *references], root, environment)
        ended = (
            f"is not imported within {IMPORT_SECONDS:g} s"
            if exit_code is None
            else f"ends the process on import (exit code {exit_code})"
        )
        return ended, [_describe(line) for line in results.read_text(encoding="utf-8").splitlines()]


def _run_bounded(command: list[str], folder: Path, environment: dict[str, str]) -> int | None:
    """Run a command without its output, and end what it has started; `None` if it took too long."""
    with subprocess.Popen(  # noqa: S603 - the command is our own
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as child:
        try:
            return child.wait(IMPORT_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def _describe(line: str) -> str | None:
    from holdfast.configs.loading import suggest_name

    found = json.loads(line)
    if found is None:
        return None
    function = str(found["fault"]).rpartition(" ")[2]
    hint = f": {suggest_name(function, found['functions'])}" if "functions" in found else ""
    return f"{found['fault']}{hint}"
