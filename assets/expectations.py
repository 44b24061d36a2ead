"""Great Expectations as asset checks: the result of a suite becomes an `AssetCheckResult`.

Great Expectations imports Spark, which takes seconds: it is imported when a suite runs, so that
sensors do not wait for it.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dagster as dg

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations import ExpectationSuite


@contextmanager
def safe_imports() -> Iterator[None]:
    """Let Great Expectations be imported in a process without a main file, as Dagster's runs are.

    It imports Spark Connect, which takes such a process for a doctest and exits with code 0 if it lacks a package.
    """
    main = sys.modules["__main__"]
    if main.__spec__ is not None or hasattr(main, "__file__"):
        yield
        return
    main.__file__ = __file__
    try:
        yield
    finally:
        del main.__file__


def import_expectations() -> None:
    """Import Great Expectations; call it before a function of the user's that builds a suite."""
    with safe_imports():
        import great_expectations.expectations  # noqa: F401


def validate(
    frame: "pd.DataFrame", suite: "ExpectationSuite", *, about: Mapping[str, int] | None = None
) -> dg.AssetCheckResult:
    """Run a suite on a frame; the worst failed expectation sets the severity."""
    import_expectations()
    import great_expectations as gx
    from great_expectations.expectations.metadata_types import FailureSeverity

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}  # type: ignore[assignment]
    asset = context.data_sources.add_pandas("frames").add_dataframe_asset("frame")
    batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})
    outcome = batch.validate(suite)
    failed = [result for result in outcome.results if not result.success]
    configs = [result.expectation_config for result in failed if result.expectation_config]
    critical = any(config.severity == FailureSeverity.CRITICAL for config in configs)
    return dg.AssetCheckResult(
        passed=bool(outcome.success),
        severity=dg.AssetCheckSeverity.ERROR if critical else dg.AssetCheckSeverity.WARN,
        description=f"{len(outcome.results) - len(failed)} of {len(outcome.results)} expectations hold",
        metadata={
            **(about or {}),
            "rows_validated": len(frame),
            "expectations": len(outcome.results),
            "failed": dg.MetadataValue.json(
                [{"expectation": c.type, **_plain(c.kwargs)} for c in configs]
            ),
        },
    )


def _plain(kwargs: dict[str, object]) -> dict[str, object]:
    """The arguments of an expectation as JSON values, cut to a readable length."""
    shown = {key: value for key, value in kwargs.items() if key != "batch_id"}
    return {
        key: value if isinstance(value, str | int | float | bool | None) else str(value)[:200]
        for key, value in shown.items()
    }
