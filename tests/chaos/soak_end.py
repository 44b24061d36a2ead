"""The end of a soak: all streams settle, their output is exact, nothing runs on, nothing has grown beyond its bound."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa

from holdfast.orchestration.retention import prune_records, rotate_logs
from holdfast.resources.control_store.schema import metadata
from holdfast.resources.vault import catalogue
from tests.chaos.soak_plan import MEGABYTE, Engine, Work, list_excesses
from tests.chaos.soak_project import PATIENCE_SECONDS, SoakProject, SoakStream, read_with_retries

LEFT_SECONDS = 120.0
DIFFERENCES = {
    "digest_differs",
    "input_differs",
    "input_reappeared",
    "input_reused",
    "output_lost",
    "snapshots_lost",
}


def require_settled(soak: SoakProject) -> None:
    """Without further faults each stream becomes healthy, in its tier, with nothing left to do."""
    soak.ensure_dagster()
    for stream in soak.streams.values():
        stream.await_new_epochs()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while unsettled := read_with_retries(lambda stream=stream: _find_unsettled(stream)):
            assert time.monotonic() < deadline, f"{stream.name}: {unsettled}: {stream.tell()}"
            time.sleep(0.5)


def _find_unsettled(stream: SoakStream) -> str:
    store, status = stream.project.store, stream.look()
    if store.migrations.open(stream.name) is not None:
        return "a migration is open"
    if not stream.holds(status.tier):
        return f"{status.verdict} in {status.tier}"
    recoveries = [each for each in store.incidents.of(stream.name) if each.kind == "recovery"]
    return f"open: {recoveries}" if recoveries else ""


def require_exact(stream: SoakStream) -> str:
    """The stopped stream has put out what the oracle computes in one batch, each epoch once."""
    proof = stream.prove()
    assert proof.holds, proof.faults()
    audit = stream.project.store.ledger.audit(stream.name)
    assert not audit.holes, audit
    assert not audit.disagreements, audit
    incidents = stream.project.store.incidents.of(stream.name, open_only=False)
    differences = [each for each in incidents if each.kind in DIFFERENCES]
    assert not differences, differences
    wrong = stream.find_wrong_dead_letters()
    assert not wrong, wrong
    return (
        f"{stream.name}: {proof.epochs} epochs, {proof.rows_in} rows in, {proof.rows_out} rows out"
    )


def require_nothing_left(soak: SoakProject) -> None:
    """Once all is stopped no process of the project runs."""
    deadline = time.monotonic() + LEFT_SECONDS
    while left := soak.list_processes():
        assert time.monotonic() < deadline, [(each.pid, _command_line(each)) for each in left]
        time.sleep(0.5)


def _command_line(process: object) -> object:
    with suppress(Exception):
        return process.cmdline()  # type: ignore[attr-defined]
    return "gone"


def run_retention(soak: SoakProject) -> None:
    """What the hourly schedule does, except for epochs: the proof needs all of them."""
    for name in soak.streams:
        catalogue.prune(soak.project, name, dry_run=False)
    prune_records(soak.project, streams=list(soak.streams))
    rotate_logs(soak.project, streams=list(soak.streams))


def measure_growth(soak: SoakProject) -> dict[str, float]:
    """Rows of all tables of the control store, files and bytes of all that the project keeps."""
    home, store = soak.home, soak.project.store
    database = store._database
    measured: dict[str, float] = {
        f"rows of {table.name}": float(
            database.fetch(sa.select(sa.func.count().label("rows")).select_from(table))[0]["rows"]
        )
        for table in metadata.sorted_tables
    }
    logs = [*home.glob("logs/*"), *home.glob("replicas/*/*.log"), *home.glob("replicas/*/*.out")]
    sizes = [log.stat().st_size / MEGABYTE for log in logs]
    config = soak.project.config
    paths = [
        place(name)
        for name in soak.streams
        for place in (config.table_path, config.dead_letters_path)
    ]
    tables = [Path(path) for path in paths if path is not None]
    measured |= {
        "megabytes of one log": max(sizes, default=0.0),
        "megabytes of logs": sum(sizes),
        "megabytes of Dagster": _megabytes(home / "dagster"),
        "megabytes of tables": sum(map(_megabytes, tables)),
        "files of tables": float(sum(len(list(_files(table))) for table in tables)),
    }
    for part, folder in (("replica folders", "replicas"), ("objects", "objects")):
        measured[f"megabytes of {part}"] = _megabytes(home / folder)
        measured[f"files of {part}"] = float(len(list(_files(home / folder))))
    if soak.engine is Engine.SQLITE:
        measured["megabytes of the control store"] = sum(
            file.stat().st_size / MEGABYTE for file in home.glob("control.db*")
        )
    return measured


def require_bounds(measured: Mapping[str, float], work: Work) -> None:
    """Nothing has grown beyond its bound."""
    excesses = list_excesses(measured, work)
    assert not excesses, "; ".join(excesses)


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.is_file())


def _megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in _files(folder)) / MEGABYTE
