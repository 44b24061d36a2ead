"""From our errors to Dagster's: try again, or stop and show a person the hint."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from ft_policies.errors import HoldfastError, TransientError

RETRIES = 3
RETRY_PAUSE_SECONDS = 5.0


@contextmanager
def explained() -> Iterator[None]:
    """Let Dagster retry what may heal, and fail at once, with the hint, what will not."""
    try:
        yield
    except TransientError as error:
        raise dg.RetryRequested(max_retries=RETRIES, seconds_to_wait=RETRY_PAUSE_SECONDS) from error
    except HoldfastError as error:
        raise dg.Failure(str(error), metadata={"hint": error.hint}, allow_retries=False) from error
