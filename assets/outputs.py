"""What a stream put out as an asset: every epoch once, and its rows as people expect them."""

import dagster as dg

from holdfast.assets import dead_letters
from holdfast.assets.expectations import validate
from holdfast.assets.keys import output_key, stream_key
from holdfast.assets.project_resource import Worlds, explained
from holdfast.configs.references import load
from holdfast.configs.sinks import DeltaSink
from holdfast.configs.stream import StreamDeclaration
from holdfast.observation.tables import (
    AUDITED_EPOCHS,
    TableEpochs,
    newest_rows,
    open_table,
    table_epochs,
)
from holdfast.resources.control_store.records import LedgerEntry
from holdfast.resources.project import Project

VALIDATED_ROWS = 100_000
SHOWN_PROBLEMS = 20


def spec(declared: StreamDeclaration) -> dg.AssetSpec:
    """What Dagster shows of a stream's output."""
    is_table = isinstance(declared.sink, DeltaSink)
    return dg.AssetSpec(
        output_key(declared.name),
        deps=[stream_key(declared.name)],
        description=f"The output of {declared.name}, one commit an epoch, each epoch once.",
        group_name="outputs",
        kinds={"deltalake"} if is_table else {"python"},
        metadata={
            "sink": declared.sink.kind,
            "output_mode": declared.output_mode,
            "expectations": declared.expectations or "none declared",
        },
    )


def checks(declared: StreamDeclaration) -> list[dg.AssetChecksDefinition]:
    """The claims about a stream's output."""
    name = declared.name

    @dg.asset_check(
        asset=output_key(name),
        name="ledger_complete",
        description="No epoch is missing or there twice, no two replicas disagreed on one, and the "
        "output table has the same epochs as the ledger.",
    )
    def ledger_complete(worlds: dg.ResourceParam[Worlds]) -> dg.AssetCheckResult:
        with explained(), worlds.open() as world:
            return audit(world, name)

    found = [ledger_complete, *dead_letters.checks(declared)]
    if declared.expectations is None or not isinstance(declared.sink, DeltaSink):
        return found
    return [*found, _expectations(name, declared.expectations)]


def _expectations(name: str, suite: str) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=output_key(name),
        name="expectations",
        description=f"The newest {VALIDATED_ROWS:,} rows or so meet the Great Expectations suite {suite}.",
    )
    def expectations(worlds: dg.ResourceParam[Worlds]) -> dg.AssetCheckResult:
        with explained(), worlds.open() as world:
            table = open_table(world, name)
            if table is None:
                return dg.AssetCheckResult(passed=True, description="there is no output yet")
            newest = newest_rows(table, at_least=VALIDATED_ROWS)
            about = {"files_validated": newest.files, "files_in_all": newest.files_in_all}
            return validate(newest.frame, load(suite)(), about=about)

    return expectations


def audit(world: Project, stream: str) -> dg.AssetCheckResult:
    """Hold the ledger against the epoch log, the replicas' copies and the output table."""
    store = world.store
    last = store.ledger.last(stream)
    found = store.ledger.audit(stream)
    problems = [f"epoch {epoch} is missing in the ledger" for epoch in found.holes]
    problems += [f"epoch {odd.epoch}: replicas disagree" for odd in found.disagreements]
    metadata: dict[str, dg.MetadataValue | int | str] = {
        "last_epoch": -1 if last is None else last.epoch,
        "uncommitted_epochs": len(found.uncommitted),
    }
    if last is not None and isinstance(world.config.stream(stream).sink, DeltaSink):
        checked, wrong = _audit_table(world, stream, last.epoch)
        metadata["table_epochs_checked"] = checked
        problems += wrong
    return dg.AssetCheckResult(
        passed=not problems,
        severity=dg.AssetCheckSeverity.ERROR,
        description=problems[0] if problems else "every epoch is there once",
        metadata={
            **metadata,
            "problem_count": len(problems),
            "problems": dg.MetadataValue.json(problems[:SHOWN_PROBLEMS]),
        },
    )


def _audit_table(world: Project, stream: str, last: int) -> tuple[str, list[str]]:
    """The ledger is read first: an epoch is in the table before it is in the ledger."""
    first = max(0, last + 1 - AUDITED_EPOCHS)
    ledger = world.store.ledger.between(stream, first, last)
    table = open_table(world, stream)
    if table is None:
        missing = any(entry.rows for entry in ledger)
        return "none: there is no table", ["there is no output table"] if missing else []
    # Twice as many commits as epochs: other programs may write to the table as well.
    there = table_epochs(table, stream, limit=2 * AUDITED_EPOCHS)
    reach = last if there.first is None else max(first, there.first)
    entries = [entry for entry in ledger if entry.epoch >= reach]
    return f"{reach} to {last}", [wrong for entry in entries for wrong in _compare(entry, there)]


def _compare(entry: LedgerEntry, there: TableEpochs) -> list[str]:
    count, wanted = there.counts.get(entry.epoch, 0), 1 if entry.rows else 0
    if count != wanted:
        return [f"epoch {entry.epoch} with {entry.rows} rows is {count} times in the table"]
    if count and there.digests[entry.epoch] != entry.digest:
        return [f"epoch {entry.epoch} has another digest in the table than in the ledger"]
    return []
