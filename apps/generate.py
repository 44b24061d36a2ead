"""Generates input for an application: `python -m holdfast.apps.generate taxi data/taxi --events 200000`.

The same arguments give the same files. A file gets its name only when it is complete, so a
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

from holdfast.apps.input_flaws import NO_FLAWS, InputFlaws

APPS = sorted(path.parent.name for path in Path(__file__).parent.glob("*/generator.py"))


def generate(
    app: str, folder: Path, *, events: int, seed: int, per_file: int, flaws: InputFlaws
) -> list[Path]:
    """Write the records of an application's generator in the order of their arrival, file by file."""
    generator, random = import_module(f"apps.{app}.generator"), np.random.default_rng(seed)
    records = flaws.distort_records(generator.records(events, seed), random)
    lines = flaws.damage_lines(format_lines(records, generator.FORMAT), random)
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _write_file(folder / f"{number:06d}.{generator.FORMAT}", lines[first : first + per_file])
        for number, first in enumerate(range(0, len(lines), per_file))
    ]


def format_lines(records: pd.DataFrame, kind: str) -> list[str]:
    """One line a record: CSV without a header, or JSON."""
    if kind == "jsonl":
        return [json.dumps(record) for record in records.to_dict("records")]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(records.itertuples(index=False, name=None))
    return text.getvalue().splitlines()


def _write_file(path: Path, lines: Sequence[str]) -> Path:
    scratch = path.with_name(f".{path.name}.part")
    scratch.write_text("".join(f"{line}\n" for line in lines))
    return scratch.rename(path)


def main() -> None:
    """Read the arguments, and write the files."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.apps.generate", description=__doc__)
    parser.add_argument("app", choices=APPS)
    parser.add_argument("folder", type=Path, help="created if it does not exist")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-file", type=int, default=10_000, help="lines a file")
    parser.add_argument(
        "--clean", action="store_true", help="no late, missing, duplicated or damaged records"
    )
    options = parser.parse_args()
    files = generate(
        options.app,
        options.folder,
        events=options.events,
        seed=options.seed,
        per_file=options.per_file,
        flaws=NO_FLAWS if options.clean else InputFlaws(),
    )
    print(f"{options.events:,} records of {options.app} in {len(files)} files in {options.folder}")  # noqa: T201


if __name__ == "__main__":
    main()
