"""The folder that Dagster works in: `<home>/dagster`, with settings that suit a supervisor.

The files are written once. Afterwards they belong to whoever runs the project.
"""

from pathlib import Path

SETTINGS = """\
# Written by `holdfast up` because there was none; change it as you like.
telemetry:
  enabled: false
nux:                       # no question for an e-mail address on the first look
  enabled: false
run_monitoring:            # a run whose process died must not look as if it went on
  enabled: true
  start_timeout_seconds: 180
  poll_interval_seconds: 30
run_queue:
  dequeue_interval_seconds: 1  # Dagster's own 5 would be time that a recovery waits
concurrency:
  runs:
    max_concurrent_runs: 4 # recoveries first: see the priorities of the runs
sensors:
  use_threads: true        # side by side: a slow one does not delay a recovery
retention:                 # sensors tick every few seconds: keep what did something
  sensor:
    purge_after_days: {skipped: 1, success: 14, failure: 30, started: 7}
  schedule:
    purge_after_days: {skipped: 7, success: 30, failure: 30, started: 7}
"""

WORKSPACE = """\
load_from:
  - python_module:
      module_name: orchestration.definitions
      location_name: holdfast
"""


def prepare(folder: Path) -> None:
    """Make the folder, unless it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_once(folder / "dagster.yaml", SETTINGS)


def workspace(root: Path, folder: Path) -> Path:
    """The project's own workspace file, or one that loads Holdfast as installed."""
    own = root / "workspace.yaml"
    if own.exists():
        return own
    fallback = folder / "workspace.yaml"
    _write_once(fallback, WORKSPACE)
    return fallback


def _write_once(path: Path, text: str) -> None:
    if not path.exists():
        path.write_text(text, encoding="utf-8")
