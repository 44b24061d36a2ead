"""What a stream leaves in files of the home folder: logs of services and replicas, and the report of each day's costs."""

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.observation.reports import costs
from holdfast.observation.reports.files import report_folder, report_parts
from holdfast.orchestration.retention import REPLICA_LOGS
from holdfast.resources.project import Project

TAIL_BYTES = 65536
EMPTY = b"a line of a log that the fresh stream did not write in time\n"


@dataclass(frozen=True, slots=True)
class HomeAgeing:
    """Lets logs grow as they grew, and copies the newest report of costs."""

    home: Path
    log_rates: Mapping[str, float]
    """Bytes a second, by name."""
    longest: int
    """Retention cuts a longer log."""
    template: str | None
    """The day whose report of costs is copied."""

    @classmethod
    def of(cls, project: Project, log_rates: Mapping[str, float]) -> "HomeAgeing":
        """Find what the live stream left."""
        home = project.config.home
        days = sorted(report_parts(home, costs.REPORT))
        longest = project.config.deployment.retention.log_size
        return cls(home, dict(log_rates), longest, days[-1] if days else None)

    def write_logs(self, seconds: float) -> None:
        """Let the logs of the services grow; the product's retention cuts them."""
        for log in (self.home / "logs").glob("*.log"):
            self._grow(log, seconds)

    def write_replica_logs(self, folder: Path, seconds: float) -> None:
        """Let the logs of a replica be as if it had lived for so long, cut as retention does while it lives."""
        for name in REPLICA_LOGS:
            log = folder / name
            if log.exists():
                at = log.stat().st_mtime
                for path in self._grow_and_cut(log, seconds):
                    os.utime(path, (at, at))

    def write_costs(self, begin_at: float) -> None:
        """Write the report of the day before."""
        if self.template is None:
            return
        day = datetime.fromtimestamp(begin_at, UTC).date() - timedelta(days=1)
        for file in report_folder(self.home, costs.REPORT).glob(f"{self.template}.*"):
            copy = file.with_name(f"{day}{file.suffix}")
            if not copy.exists():
                shutil.copyfile(file, copy)

    def _grow_and_cut(self, log: Path, seconds: float) -> Iterator[Path]:
        self._grow(log, seconds)
        size = log.stat().st_size
        if size > self.longest:
            older = log.with_name(f"{log.name}.1")
            log.rename(older)
            os.truncate(older, self.longest)
            log.write_bytes(older.read_bytes()[: size % self.longest])
            yield older
        yield log

    def _grow(self, log: Path, seconds: float) -> None:
        grows = round(self.log_rates.get(log.name, 0.0) * seconds)
        with log.open("rb") as written:
            written.seek(max(0, log.stat().st_size - TAIL_BYTES))
            tail = written.read() or EMPTY
        with log.open("ab") as writing:
            for begin in range(0, grows, len(tail)):
                writing.write(tail[: grows - begin])
