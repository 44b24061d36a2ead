"""Secrets in `spark_conf` and `params`: declared as `${VARIABLE}`, resolved only in the driver that needs them.

A declaration is stored in the control store and shown by Dagster and the command line.
"""

import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from holdfast.ft_policies.errors import PermanentError

_CLEAR = "is a secret in clear text"
CLEAR_TEXT = f"{_CLEAR}: write ${{VARIABLE}}, and set that environment variable"
CLEAR_DATABASE = f"{_CLEAR}: leave the password out, and write it into ~/.pgpass or the environment variable PGPASSWORD"
CLEAR_ENDPOINT = f"{_CLEAR}: leave it out, and name the variables of the keys in access_key_id_env and secret_access_key_env"
VISIBLE = "is visible to every user of the machine, as Java's options are: use a file, or a setting of its own"
_SECRET = re.compile(
    r"secret|passw(or)?d|passphrase|credential|token(?![a-z])|(?<![a-z])(sas|pwd|authorization|bearer)(?![a-z])"
    r"|(access|account|api|private|shared|signing)[._-]?key(?!provider)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"passw(or)?d$|(?<![a-z])pwd$", re.IGNORECASE)
"""What may be a number in YAML: a token that is one is rather a count."""
# `…credentials.provider` and `…token.type` tell about a secret; `tokens` may be words.
_TELLS_ABOUT_IT = re.compile(r"(provider|file|path|mechanism|type|enabled)$", re.IGNORECASE)
_URL_WITH_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
_ASSIGNMENT = re.compile(r"(?<![\w.-])([\w.-]+)=[^\s=&;]")
_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_JAVA_OPTIONS = "JavaOptions"

Loc = tuple[str | int, ...]


def names_secret(name: str) -> bool:
    """Whether a field of this name, which need not be a known one, holds a secret."""
    return bool(_SECRET.search(name)) and not _TELLS_ABOUT_IT.search(name)


def find_clear_settings(conf: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The settings of Spark that hold a secret, each with what is wrong."""
    for key, value in conf.items():
        if key.endswith(_JAVA_OPTIONS):
            if "${" in value or holds_secret(value):
                yield key, VISIBLE
        elif _is_clear(key, value):
            yield key, CLEAR_TEXT


def find_clear_params(value: JsonValue, loc: Loc = (), name: str = "") -> Iterator[Loc]:
    """Where params hold a secret themselves: by the name of the field, or in a URL or an assignment."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from find_clear_params(inner, (*loc, key), _name_below(name, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from find_clear_params(inner, (*loc, number), name)
    elif (isinstance(value, str) and _is_clear(name, value)) or (
        isinstance(value, int | float) and not isinstance(value, bool) and _NUMBER.search(name)
    ):
        yield loc


def _name_below(name: str, key: str) -> str:
    """What a field counts as: as the secret above it, unless it only tells about that one."""
    is_of_secret = names_secret(name) and not names_secret(key)
    return name if is_of_secret and not _TELLS_ABOUT_IT.search(key) else key


def _is_clear(name: str, value: str) -> bool:
    is_secret = names_secret(name) or holds_secret(value)
    return bool(value) and is_secret and not _REFERENCE.fullmatch(value)


def holds_secret(text: str) -> bool:
    """Whether a text has a URL with a password, or an assignment to what is called like a secret."""
    assigned = (names_secret(match[1]) for match in _ASSIGNMENT.finditer(text))
    return bool(_URL_WITH_PASSWORD.search(text)) or any(assigned)


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
    if isinstance(value, list):
        return [
            _resolve_param(f"{path}.{number}", inner, environment)
            for number, inner in enumerate(value)
        ]
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
