"""Makes input for an application: `python -m apps.generate taxi data/taxi --events 200000`.

The same arguments give the same files. Files appear under their names only when they are whole, so a
stream may read the folder meanwhile.
"""

import argparse
import csv
import io
import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd

from apps.input_flaws import NONE, Flaws

APPS = sorted(path.parent.name for path in Path(__file__).parent.glob("*/generator.py"))


def generate(
    app: str, folder: Path, *, events: int, seed: int, per_file: int, flaws: Flaws
) -> list[Path]:
    """Write the records of an application's generator as they would arrive, file by file."""
    made_by, random = import_module(f"apps.{app}.generator"), np.random.default_rng(seed)
    arriving = flaws.arriving(made_by.records(events, seed), random)
    lines = flaws.spoilt(as_lines(arriving, made_by.FORMAT), random)
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _put(folder / f"{number:06d}.{made_by.FORMAT}", lines[first : first + per_file])
        for number, first in enumerate(range(0, len(lines), per_file))
    ]


def as_lines(records: pd.DataFrame, kind: str) -> list[str]:
    """One line a record: CSV without a header, or JSON."""
    if kind == "jsonl":
        return [json.dumps(one) for one in records.to_dict("records")]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(records.itertuples(index=False, name=None))
    return text.getvalue().splitlines()


def _put(path: Path, lines: Sequence[str]) -> Path:
    beside = path.with_name(f".{path.name}.part")
    beside.write_text("".join(f"{line}\n" for line in lines))
    return beside.rename(path)


def main() -> None:
    """Read the arguments, and write the files."""
    parser = argparse.ArgumentParser(prog="python -m apps.generate", description=__doc__)
    parser.add_argument("app", choices=APPS)
    parser.add_argument("folder", type=Path, help="is made if it is not there")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-file", type=int, default=10_000, help="lines a file")
    parser.add_argument(
        "--clean", action="store_true", help="nothing late, missing, twice or spoilt"
    )
    given = parser.parse_args()
    files = generate(
        given.app,
        given.folder,
        events=given.events,
        seed=given.seed,
        per_file=given.per_file,
        flaws=NONE if given.clean else Flaws(),
    )
    print(f"{given.events:,} records of {given.app} in {len(files)} files in {given.folder}")  # noqa: T201


if __name__ == "__main__":
    main()
