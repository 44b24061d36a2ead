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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.configs.declarations.deployment import Deployment, Function
from holdfast.configs.declarations.sinks import CallableSink
from holdfast.configs.declarations.sources import FilesSource
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.errors import PermanentError

if TYPE_CHECKING:
    from holdfast.configs.loading import Document, Problem

IMPORT_SECONDS = 60.0
ALL_SECONDS = 180.0
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


@dataclass
class ReferenceCheck:
    """Imports functions as drivers would, in processes of their own; each process and all of them are limited in time."""

    root: Path
    monotonic: Callable[[], float]
    _faults: dict[tuple[Path, str], str | None] = field(default_factory=dict, init=False)
    """By code folder and reference; a module that cannot be imported at all is in it, too."""

    def __post_init__(self) -> None:
        self._ends_at = self.monotonic() + ALL_SECONDS

    def check(
        self, document: "Document", functions: Iterable[NamedFunction], *, code: str | None = None
    ) -> "list[Problem]":
        """The problems of one file; `code` is the stream's own code folder."""
        folder = self.root if code is None else self.root / Path(code).expanduser()
        if not folder.is_dir():
            return [document.problem_at(("code",), "folder not found", value=code)]
        named = [(loc, reference) for loc, reference in functions if reference is not None]
        self._import([reference for _, reference in named], folder)
        return [
            document.problem_at(loc, fault, value=reference)
            for loc, reference in named
            if (fault := self._faults[self._key(folder, reference)]) is not None
        ]

    def _import(self, references: list[str], code: Path) -> None:
        """Find the faults; a process that ends or hangs counts for the module that it has reached."""
        while new := [name for name in references if self._key(code, name) not in self._faults]:
            seconds = min(IMPORT_SECONDS, self._ends_at - self.monotonic())
            ended, results = (
                self._import_in_child(new, code, seconds)
                if seconds > 0
                else (f"is not imported: the modules before it took {ALL_SECONDS:g} s", [])
            )
            self._faults |= {(code, name): fault for name, fault in zip(new, results, strict=False)}
            if len(results) < len(new):
                module = _module_of(new[len(results)])
                fault = f"module {module} {ended}: it must be importable without side effects"
                self._faults[code, module] = fault

    def _key(self, code: Path, reference: str) -> tuple[Path, str]:
        """Where the fault of a reference is: at its module if that cannot be imported."""
        module = (code, _module_of(reference))
        return module if module in self._faults else (code, reference)

    def _import_in_child(
        self, references: list[str], code: Path, seconds: float
    ) -> tuple[str, list[str | None]]:
        """How the process ended, and what it found out until then."""
        path = [str(code), str(self.root), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in path if part)}
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder) / "results"
            results.touch()
            command = [sys.executable, "-P", "-m", "holdfast.configs.import_check", str(results)]
            exit_code = _run_bounded([*command, *references], self.root, environment, seconds)
            ended = (
                f"is not imported within {seconds:g} s"
                if exit_code is None
                else f"ends the process on import (exit code {exit_code})"
            )
            lines = results.read_text(encoding="utf-8").splitlines()
        return ended, [_describe(line) for line in lines]


def _module_of(reference: str) -> str:
    return reference.partition(":")[0]


def _run_bounded(
    command: list[str], folder: Path, environment: dict[str, str], seconds: float
) -> int | None:
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
            return child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def _describe(line: str) -> str | None:
    from holdfast.configs.loading import suggest_name

    result = json.loads(line)
    if result is None:
        return None
    function = str(result["fault"]).rpartition(" ")[2]
    hint = f": {suggest_name(function, result['functions'])}" if "functions" in result else ""
    return f"{result['fault']}{hint}"
