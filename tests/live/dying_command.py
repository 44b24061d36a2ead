"""A `holdfast` command whose process is killed with -9 as it writes a line of the journal.

`python -m tests.live.dying_command STEP PHASE ARGUMENT…`: `intent` is before the step is performed, `done` after it.
"""

import os
import signal
import sys
from typing import Any

from holdfast.orchestration.cli.main import app
from holdfast.resources.control_store.tables.playbooks.journal import Journal

STEP, PHASE, *ARGUMENTS = sys.argv[1:]
write = Journal.write


def die_after(journal: Journal, **line: Any) -> None:
    write(journal, **line)
    if (line["step"], line["phase"]) == (STEP, PHASE):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    Journal.write = die_after  # type: ignore[method-assign]
    app(ARGUMENTS)
