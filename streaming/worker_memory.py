"""Sparing Spark's Python workers: after each task Spark has them collect garbage, in all that they ever imported.

That takes longer than most tasks of a stream. What is imported stays for good, so it can be left out.
"""

import gc
from functools import cache


@cache
def leave_imports_out() -> None:
    """Keep what this process has by now out of all later collections; once, whoever asks."""
    gc.collect()
    gc.freeze()
