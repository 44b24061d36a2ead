"""Imports users' functions in a process of its own: `python -m holdfast.configs.import_check RESULTS REFERENCE...`.

A user's module may exit, hang or break the interpreter, so the process writes one line of JSON for each
function as soon as it knows: a fault, `null` if there is none, or the names that the module has.
"""

import importlib
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

MEMORY_SHARE = 0.5


def main(results: str, references: list[str]) -> None:
    """Write a line for each reference; a module that takes most of the machine's memory fails on import."""
    most = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * MEMORY_SHARE)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    with Path(results).open("w", encoding="utf-8") as lines:
        for reference in references:
            lines.write(json.dumps(find_fault(reference)) + "\n")
            lines.flush()


def find_fault(reference: str) -> dict[str, Any] | None:
    """What is wrong with a reference, with the functions of the module if the named one is missing."""
    name, _, function = reference.partition(":")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        return {
            "fault": f"module {error.name} not found: it is neither in the project nor in the environment"
        }
    except BaseException as error:  # noqa: BLE001 - a user's module may raise anything, SystemExit too
        return {"fault": f"module {name} fails on import: {type(error).__name__}: {error}"}
    value = getattr(module, function, None)
    if callable(value):
        return None
    if value is not None:
        return {"fault": f"{function} is not a function"}
    functions = [key for key, item in vars(module).items() if key[0] != "_" and callable(item)]
    return {"fault": f"module {name} has no function {function}", "functions": functions}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
