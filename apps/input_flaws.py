"""How real input arrives: some records late, some never, some twice, and some lines spoilt on the way."""

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaws:
    """Shares of the records; a late one comes up to `late_by` records after its place."""

    late: float = 0.01
    late_by: int = 500
    missing: float = 0.005
    duplicated: float = 0.005
    malformed: float = 0.002

    def arriving(self, records: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
        """The records in the order in which they arrive."""
        there = records[random.random(len(records)) >= self.missing]
        twice = there[random.random(len(there)) < self.duplicated]
        place = np.concatenate(
            [np.arange(len(there)), np.flatnonzero(there.index.isin(twice.index))]
        )
        all_of_them = pd.concat([there, twice], ignore_index=True)
        late = random.random(len(place)) < self.late
        late[len(there) :] = True  # a second copy comes after the first
        moved = place + late * random.integers(1, self.late_by + 1, len(place))
        return all_of_them.iloc[np.argsort(moved, kind="stable")].reset_index(drop=True)

    def spoilt(self, lines: list[str], random: np.random.Generator) -> list[str]:
        """The same lines, a few of them cut short, or with garbage in place of a value."""
        found = list(lines)
        for at in np.flatnonzero(random.random(len(lines)) < self.malformed):
            line = found[at]
            found[at] = line[: max(len(line) // 3, 1)] if random.random() < 0.5 else f"#!{line}?"
        return found


NONE = Flaws(late=0.0, missing=0.0, duplicated=0.0, malformed=0.0)
