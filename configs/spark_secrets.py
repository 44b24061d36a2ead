"""Secrets in `spark_conf`: declared as `${VARIABLE}`, resolved only in the driver that needs them."""

import re
from collections.abc import Mapping

from holdfast.ft_policies.errors import PermanentError

# The keys whose values Spark itself hides (spark.redaction.regex).
_SECRET_KEY = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


def is_clear_secret(key: str, value: str) -> bool:
    """Whether a setting holds a secret itself instead of the name of a variable."""
    return bool(_SECRET_KEY.search(key)) and not _REFERENCE.fullmatch(value)


def resolve_references(conf: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The settings with the values of the variables; `PermanentError` if one is not set."""
    return {key: _resolve(key, value, environment) for key, value in conf.items()}


def _resolve(key: str, value: str, environment: Mapping[str, str]) -> str:
    reference = _REFERENCE.fullmatch(value)
    if reference is None:
        return value
    variable = reference.group(1)
    if variable not in environment:
        raise PermanentError(
            f"the environment variable {variable} is not set: {key} of spark_conf names it",
            hint=f"set {variable} where `holdfast up` is run, then run `holdfast down` and `holdfast up`",
        )
    return environment[variable]
