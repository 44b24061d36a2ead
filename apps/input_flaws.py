"""The flaws of real input: records that are late, missing or duplicated, and damaged lines."""

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFlaws:
    """Shares of the records; a late record arrives up to `late_by` records after its place."""

    late: float = 0.01
    late_by: int = 500
    missing: float = 0.005
    duplicated: float = 0.005
    malformed: float = 0.002

    def distort_records(self, records: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
        """The records in the order of their arrival, without the missing and with the duplicated ones."""
        present = records[random.random(len(records)) >= self.missing]
        duplicates = present[random.random(len(present)) < self.duplicated]
        place = np.concatenate(
            [np.arange(len(present)), np.flatnonzero(present.index.isin(duplicates.index))]
        )
        records = pd.concat([present, duplicates], ignore_index=True)
        late = random.random(len(place)) < self.late
        late[len(present) :] = True  # a duplicate arrives after the original
        arrival = place + late * random.integers(1, self.late_by + 1, len(place))
        return records.iloc[np.argsort(arrival, kind="stable")].reset_index(drop=True)

    def damage_lines(self, lines: list[str], random: np.random.Generator) -> list[str]:
        """The lines with a few of them cut short or surrounded by garbage."""
        damaged = list(lines)
        for at in np.flatnonzero(random.random(len(lines)) < self.malformed):
            line = damaged[at]
            damaged[at] = line[: max(len(line) // 3, 1)] if random.random() < 0.5 else f"#!{line}?"
        return damaged


NO_FLAWS = InputFlaws(late=0.0, missing=0.0, duplicated=0.0, malformed=0.0)
