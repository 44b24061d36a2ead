"""Making the source that a stream declares, the same for Spark's tasks and the prefetcher."""

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.configs.declarations.sources import (
    FilesSource as FilesDeclaration,
    RateSource as RateDeclaration,
    Source as Declaration,
)
from holdfast.configs.references import load
from holdfast.resources.object_store.resolve import open_filesystem
from holdfast.streaming.sources.base import Source
from holdfast.streaming.sources.files import FilesSource
from holdfast.streaming.sources.folder import ListedFile
from holdfast.streaming.sources.rate import COLUMNS, SCHEMA, RateSource
from holdfast.streaming.sources.validation import RecordValidator
from holdfast.streaming.spec import ReplicaSpec


def columns(declared: Declaration) -> str:
    """The columns of a declared source, in Spark's DDL."""
    return declared.columns if isinstance(declared, FilesDeclaration) else COLUMNS


def arrow_columns(declared: Declaration) -> pa.Schema:
    """The same as an Arrow schema; files have theirs parsed by Spark, so a session must be up."""
    if isinstance(declared, RateDeclaration):
        return SCHEMA
    parsed = StructType.fromDDL(declared.columns)
    assert isinstance(parsed, StructType)  # noqa: S101 - Spark reads a list of columns as one
    return to_arrow_schema(parsed, timezone="UTC")


def open_source(
    spec: ReplicaSpec, schema: pa.Schema, assigned: Callable[[Sequence[ListedFile]], set[str]]
) -> Source:
    """Open the source of a replica's stream; only a proposer of epochs calls `assigned`."""
    match spec.stream.source:
        case RateDeclaration() as declared:
            return RateSource(declared)
        case FilesDeclaration() as declared:
            files, root = open_filesystem(declared.path, spec.connect)
            return FilesSource(
                declared, schema, files, root, assigned, _validator(declared, schema)
            )


def _validator(declared: FilesDeclaration, schema: pa.Schema) -> RecordValidator | None:
    if declared.dead_letters is None:
        return None
    rules = declared.dead_letters.rules
    return RecordValidator(declared, schema, None if rules is None else load(rules))
