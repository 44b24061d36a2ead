"""Secrets in `spark_conf` and `params`: declared as `${VARIABLE}`, resolved only in the driver that needs them.

A declaration is stored in the control store and shown by Dagster and the command line.
"""

import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from holdfast.ft_policies.errors import PermanentError

# The keys whose values Spark itself hides (spark.redaction.regex).
_SECRET_KEY = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
# Params have names of the user's own: `tokens` may be words.
_SECRET_PARAM = re.compile(
    r"secret|passw(or)?d|passphrase|credential|(api|access|private)[_.-]?key|(^|[_.-])token$",
    re.IGNORECASE,
)
_URL_WITH_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


def is_clear_secret(key: str, value: str) -> bool:
    """Whether a setting holds a secret itself instead of the name of a variable."""
    return bool(_SECRET_KEY.search(key)) and not _REFERENCE.fullmatch(value)


def find_clear_params(
    params: Mapping[str, JsonValue], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Where params hold a secret themselves: by the name of the field, or a password in a URL."""
    for key, value in params.items():
        here = (*path, key)
        if isinstance(value, dict):
            yield from find_clear_params(value, here)
        elif isinstance(value, str) and _is_clear_param(key, value):
            yield here


def _is_clear_param(key: str, value: str) -> bool:
    is_secret = _SECRET_PARAM.search(key) or _URL_WITH_PASSWORD.search(value)
    return bool(value and is_secret) and not _REFERENCE.fullmatch(value)


def resolve_references(conf: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The settings with the values of the variables; `PermanentError` if one is not set."""
    return {key: _resolve(f"spark_conf.{key}", value, environment) for key, value in conf.items()}


def resolve_params(
    params: Mapping[str, JsonValue], environment: Mapping[str, str], path: str = "params"
) -> dict[str, JsonValue]:
    """The params with the values of the variables; `PermanentError` if one is not set."""
    return {
        key: _resolve_param(f"{path}.{key}", value, environment) for key, value in params.items()
    }


def _resolve_param(path: str, value: JsonValue, environment: Mapping[str, str]) -> JsonValue:
    if isinstance(value, dict):
        return resolve_params(value, environment, path)
    return _resolve(path, value, environment) if isinstance(value, str) else value


def _resolve(path: str, value: str, environment: Mapping[str, str]) -> str:
    reference = _REFERENCE.fullmatch(value)
    if reference is None:
        return value
    variable = reference.group(1)
    if variable not in environment:
        raise PermanentError(
            f"the environment variable {variable} is not set: {path} names it",
            hint=f"set {variable} where `holdfast up` is run, then run `holdfast down` and `holdfast up`",
        )
    return environment[variable]
