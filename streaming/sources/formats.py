"""Reading parquet, JSON-lines and CSV files as Arrow batches of a declared schema."""

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import csv, fs, json, parquet

from configs.sources import FilesSource as FilesDeclaration
from ft_policies.errors import PermanentError


def read_rows(
    declared: FilesDeclaration, filesystem: fs.FileSystem, path: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Read a file batch by batch in the declared columns; a missing value is null."""
    try:
        with filesystem.open_input_file(path) as opened:
            for batch in _batches(declared, opened, schema):
                yield conformed(batch, schema)
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        if "Empty JSON" in str(error) or "Empty CSV" in str(error):
            return
        raise PermanentError(
            f"{path} does not hold {declared.format} rows of the declared columns: {error}",
            hint="mend or remove the file, correct source.schema, or declare source.dead_letters to "
            "set such records aside; then start the stream again",
        ) from error


def count_rows(
    declared: FilesDeclaration, filesystem: fs.FileSystem, path: str, schema: pa.Schema
) -> int:
    """Count the rows of a file: from its footer if it has one, else by reading it."""
    if declared.format == "parquet":
        try:
            with filesystem.open_input_file(path) as opened:
                return int(parquet.read_metadata(opened).num_rows)
        except pa.ArrowInvalid as error:
            raise PermanentError(
                f"{path} is not a parquet file: {error}",
                hint="mend or remove the file, then start the stream again",
            ) from error
    return sum(batch.num_rows for batch in read_rows(declared, filesystem, path, schema))


def _batches(
    declared: FilesDeclaration, opened: pa.NativeFile, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    if opened.size() == 0:
        return iter(())
    match declared.format:
        case "parquet":
            file = parquet.ParquetFile(opened)
            known = [name for name in schema.names if name in file.schema_arrow.names]
            return iter(file.iter_batches(columns=known))
        case "jsonl":
            return iter(json.open_json(opened, parse_options=json_parsing(schema)))
        case "csv":
            names = None if declared.csv_header else schema.names
            return iter(
                csv.open_csv(
                    opened,
                    read_options=csv.ReadOptions(column_names=names),
                    convert_options=csv_conversion(schema),
                )
            )


def json_parsing(schema: pa.Schema) -> json.ParseOptions:
    """JSON in the declared columns; others are passed over."""
    return json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")


def csv_conversion(schema: pa.Schema) -> csv.ConvertOptions:
    """CSV in the declared columns; a value that is left out is null."""
    return csv.ConvertOptions(
        column_types=schema,
        include_columns=schema.names,
        include_missing_columns=True,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The declared columns in their order and types."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
