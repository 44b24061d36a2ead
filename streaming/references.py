"""Finding the user's functions: `module:function`."""

import importlib
from collections.abc import Callable
from typing import Any

from ft_policies.errors import PermanentError


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
