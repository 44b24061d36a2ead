"""A call as each of its two phones has it."""

from pyspark.sql import Column, DataFrame, functions as sf


def split_sides(df: DataFrame) -> DataFrame:
    """Every call twice, once for its caller and once for its callee, in one pass over the input."""
    both = sf.array(_side("caller", "callee"), _side("callee", "caller"))
    return df.select(sf.inline(both))


def _side(phone: str, other: str) -> Column:
    return sf.struct(
        sf.col(phone).alias("phone"),
        sf.col(other).alias("other"),
        sf.lit(phone).alias("side"),
        "time",
        "duration",
        "price",
        _place(f"{phone}_x").alias("x"),
        _place(f"{phone}_y").alias("y"),
    )


def _place(column: str) -> Column:
    """With 0.0 for -0.0, which is the same place and not the same bytes."""
    return sf.col(column) + sf.lit(0.0)
