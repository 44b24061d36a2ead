"""The output of a stream as an asset: every epoch once, and rows that meet the declared expectations."""

from collections import Counter
from collections.abc import Iterator, Sequence

import dagster as dg
from deltalake import DeltaTable

from holdfast.assets import dead_letters, growth
from holdfast.assets.expectations import import_expectations, validate
from holdfast.assets.keys import output_key, stream_key
from holdfast.assets.project_resource import ProjectResource, dagster_errors
from holdfast.configs.declarations.sinks import DeltaSink
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.configs.references import load
from holdfast.ft_policies.table_epochs import EpochRange, divide_epochs, sum_digests
from holdfast.observation.tables import (
    AUDITED_EPOCHS,
    TableEpochs,
    merged_digests,
    merged_rows,
    newest_rows,
    open_table,
    table_epochs,
)
from holdfast.resources.control_store.epoch_records import EpochFloor
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
    name = declared.name

    @dg.asset_check(
        asset=output_key(name),
        name="ledger_complete",
        description="Every epoch was committed exactly once, all replicas computed the same rows, and the "
        "output table has the same epochs as the ledger.",
    )
    def ledger_complete(projects: dg.ResourceParam[ProjectResource]) -> dg.AssetCheckResult:
        with dagster_errors(), projects.open() as project:
            return audit(project, name)

    always = [
        ledger_complete,
        *growth.table_checks(declared),
        *dead_letters.checks(declared),
    ]
    if declared.expectations is None or not isinstance(declared.sink, DeltaSink):
        return always
    return [*always, _expectations(name, declared.expectations)]


def _expectations(name: str, suite: str) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=output_key(name),
        name="expectations",
        description=f"The newest {VALIDATED_ROWS:,} rows or so meet the Great Expectations suite {suite}.",
    )
    def expectations(projects: dg.ResourceParam[ProjectResource]) -> dg.AssetCheckResult:
        with dagster_errors(), projects.open() as project:
            table = open_table(project, name)
            if table is None:
                return dg.AssetCheckResult(passed=True, description="no output yet")
            newest = newest_rows(table, at_least=VALIDATED_ROWS)
            about = {"files_validated": newest.files, "files_in_all": newest.files_in_all}
            import_expectations()
            return validate(newest.frame, load(suite)(), about=about)

    return expectations


def audit(project: Project, stream: str) -> dg.AssetCheckResult:
    """Compare the ledger with the epoch log, the replicas' copies and the output table."""
    store = project.store
    last = store.ledger.last(stream)
    ledger_audit = store.ledger.audit(stream)
    problems = [f"epoch {epoch} is missing from the ledger" for epoch in ledger_audit.holes]
    problems += [
        f"epoch {disagreement.epoch}: replicas computed different rows"
        for disagreement in ledger_audit.disagreements
    ]
    metadata: dict[str, dg.MetadataValue | int | str] = {
        "last_epoch": -1 if last is None else last.epoch,
        "uncommitted_epochs": len(ledger_audit.uncommitted),
    }
    if last is not None and isinstance(project.config.stream(stream).sink, DeltaSink):
        checked, table_problems = _audit_table(project, stream, last.epoch)
        metadata["table_epochs_checked"] = checked
        problems += table_problems
    return dg.AssetCheckResult(
        passed=not problems,
        severity=dg.AssetCheckSeverity.ERROR,
        description=problems[0] if problems else "every epoch was committed once",
        metadata={
            **metadata,
            "problem_count": len(problems),
            "problems": dg.MetadataValue.json(problems[:SHOWN_PROBLEMS]),
        },
    )


def _audit_table(project: Project, stream: str, last: int) -> tuple[str, list[str]]:
    """Compare the ledger with the table; returns the checked epochs, and the problems.

    The ledger is read first: an epoch is in the table before it is in the ledger.
    """
    first = max(0, last + 1 - AUDITED_EPOCHS)
    ledger = project.store.ledger.between(stream, first, last)
    table = open_table(project, stream)
    if table is None:
        missing = any(entry.rows for entry in ledger)
        return "none: the table does not exist", [
            "the output table does not exist"
        ] if missing else []
    # Twice as many commits as epochs: other programs may write to the table as well.
    in_table = table_epochs(table, stream, limit=2 * AUDITED_EPOCHS)
    shown = [entry for entry in ledger if in_table.shows(entry.epoch)]
    older = ledger[: len(ledger) - len(shown)]
    problems = [problem for entry in shown for problem in _compare(entry, in_table)]
    problems += _compare_older(project, stream, table, in_table, older)
    problems += [f"epoch {epoch} is in the files of the table twice" for epoch in in_table.twice]
    by_files = f", up to {older[-1].epoch} by the files of the table" if older else ""
    problems += _compare_sums(project, stream, table, in_table, before=first)
    return f"{first} to {last}{by_files}", problems


def _compare_older(
    project: Project,
    stream: str,
    table: DeltaTable,
    in_table: TableEpochs,
    entries: Sequence[LedgerEntry],
) -> Iterator[str]:
    """Epochs whose commits are no longer in the log, and of which the files have another number of rows.

    Of merged files that do not count the rows of each epoch only the sum is compared, with the others.
    """
    if not entries:
        return
    epochs = EpochRange(entries[0].epoch, entries[-1].epoch)
    rows = merged_rows(project, stream, table, epochs) + Counter(in_table.rows)
    for entry in entries:
        count = rows[entry.epoch]
        is_in_sum = not count and any(entry.epoch in merged for merged in in_table.merged)
        is_elsewhere = in_table.others > 0 and count < entry.rows
        if count != entry.rows and not (is_in_sum or is_elsewhere):
            yield f"epoch {entry.epoch} ({entry.rows} rows in the ledger) has {count} rows in the table"


def _compare_sums(
    project: Project, stream: str, table: DeltaTable, in_table: TableEpochs, *, before: int
) -> list[str]:
    """The stretches of epochs of which the files have other rows than the ledger.

    Of a merged range the digest is compared, too, as long as the ledger has its epochs.
    """
    retention = project.store.retention
    while True:
        floor = retention.floor(stream)
        problems = [
            *_compare_rows(project, stream, in_table, floor, before),
            *_compare_digests(project, stream, table, floor),
        ]
        if retention.floor(stream) == floor:  # nothing was pruned meanwhile
            return problems


def _compare_rows(
    project: Project, stream: str, in_table: TableEpochs, floor: EpochFloor, before: int
) -> Iterator[str]:
    ledger, first_kept = project.store.ledger, floor.first_epoch
    for epochs in divide_epochs(in_table.merged, known_from=first_kept, before=before):
        rows = in_table.rows_within(epochs)
        entered = ledger.rows_between(stream, max(epochs.first, first_kept), epochs.last)
        entered += floor.entered_rows if epochs.first < first_kept else 0
        if rows > entered or (rows < entered and not in_table.others):
            yield f"epochs {epochs.first} to {epochs.last} have {rows} rows in the table, {entered} in the ledger"


def _compare_digests(
    project: Project, stream: str, table: DeltaTable, floor: EpochFloor
) -> Iterator[str]:
    digests = merged_digests(project, stream, table, since=floor.first_epoch)
    for epochs, digest in digests.items():
        entries = project.store.ledger.between(stream, epochs.first, epochs.last)
        entered = sum_digests([entry.digest for entry in entries if entry.rows])
        if digest and entered and digest != entered:
            yield f"epochs {epochs.first} to {epochs.last}: the digests in the table and in the ledger differ"


def _compare(entry: LedgerEntry, in_table: TableEpochs) -> list[str]:
    count, expected = in_table.counts.get(entry.epoch, 0), 1 if entry.rows else 0
    if count != expected:
        return [
            f"epoch {entry.epoch} ({entry.rows} rows in the ledger) has {count} commits in the table"
        ]
    if count and in_table.digests[entry.epoch] != entry.digest:
        return [f"epoch {entry.epoch}: the digests in the table and in the ledger differ"]
    return []
