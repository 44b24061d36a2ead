"""Which lines are no lines of an access log, so that they are set aside."""

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.apps.click_stream.log_format import LINE, TIME

FORMAT = "%d/%b/%Y:%H:%M:%S"
FINE = pa.scalar(None, pa.string())


def objections(batch: pa.RecordBatch) -> pa.StringArray:
    """For each line why it is set aside, or null; digits alone do not tell if a date exists."""
    lines = batch.column("line")
    is_line = pc.fill_null(pc.match_substring_regex(lines, LINE), fill_value=False)
    written = pc.replace_substring_regex(lines, LINE, rf"\{TIME}")
    instant = pc.strptime(written, format=FORMAT, unit="s", error_is_null=True)
    is_time = pc.fill_null(pc.equal(pc.strftime(instant, format=FORMAT), written), fill_value=False)
    wrong_time = pc.if_else(is_time, FINE, "there is no such time")
    return pc.if_else(is_line, wrong_time, "not a line of an Apache access log")
