"""The outcome of the demo: a table for the screen, fields for JSON."""

from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from holdfast.observation.proof import Proof
from holdfast.orchestration.cli import format as fmt
from holdfast.orchestration.cli.demo.timeline import Timeline
from holdfast.orchestration.cli.terminal import DONE, FAILED, NOTE

MILESTONES = {
    "detected": "detected",
    "run_at_work": "recovery run started",
    "launched": "new primary launched",
    "caught_up": "caught up",
    "first_new_epoch": "first new epoch",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """The recovery, the proof, and the processes that were left running."""

    timeline: Timeline
    proof: Proof
    objective_seconds: float
    left: list[str]

    @property
    def holds(self) -> bool:
        """Whether the output is proven and no process was left running."""
        return self.proof.holds and not self.left

    def as_dict(self) -> dict[str, Any]:
        return {
            "holds": self.holds,
            "recovery": self.timeline.as_dict(),
            "objective_seconds": self.objective_seconds,
            "proof": {**asdict(self.proof), "holds": self.proof.holds},
            "left_running": self.left,
        }

    def table(self) -> Table:
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(justify="left")
        table.add_column(overflow="fold")
        for mark, label, value in [*self._proof_rows(), *self._time_rows(), self._left_row()]:
            table.add_row(mark, label, value)
        return table

    def _proof_rows(self) -> list[tuple[str, str, str]]:
        proof = self.proof
        once = not (proof.missing or proof.twice or proof.unwritten or proof.disputed)
        rows = proof.rows_out == proof.rows_expected and not proof.differing
        same = proof.digest == proof.digest_expected
        return [
            (
                _mark(once),
                "epochs",
                f"{proof.epochs:,}, {'each once' if once else 'not each once'}",
            ),
            ("", "rows in", f"{proof.rows_in:,}"),
            (_mark(rows), "rows out", f"{proof.rows_out:,} (batch: {proof.rows_expected:,})"),
            (_mark(same), "digest", f"{proof.digest} (batch: {proof.digest_expected})"),
            *((FAILED, "", fault) for fault in proof.faults()),
        ]

    def _time_rows(self) -> list[tuple[str, str, str]]:
        seconds = self.timeline.seconds()
        total = seconds["recovered"]
        is_held = total is not None and total <= self.objective_seconds
        return [
            *(
                ("", f"kill → {label}", fmt.seconds(seconds[name]))
                for name, label in MILESTONES.items()
            ),
            (
                DONE if is_held else NOTE,
                "kill → recovered",
                f"{fmt.seconds(total)} (objective: {self.objective_seconds:g} s, "
                f"{'held' if is_held else 'missed'})",
            ),
        ]

    def _left_row(self) -> tuple[str, str, str]:
        return _mark(not self.left), "left running", ", ".join(self.left) or "nothing"


def _mark(good: bool) -> str:  # noqa: FBT001
    return DONE if good else FAILED
