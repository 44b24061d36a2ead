"""The values of a file's partition columns, as Hive writes them into its path."""

from urllib.parse import unquote

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def partition_values(path: str) -> dict[str, str | None]:
    """Read them off a path that is relative to the table."""
    pairs = [part.split("=", 1) for part in path.split("/") if "=" in part]
    return {
        unquote(name): None if value == NULL_PARTITION else unquote(value) for name, value in pairs
    }
