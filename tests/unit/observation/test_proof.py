"""The proof behind the demo: it must fail for every way in which output can be wrong."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from deltalake import CommitProperties, write_deltalake

from holdfast.observation.proof import Proof, digest, prove
from holdfast.resources.control_store.records import LedgerEntry
from holdfast.resources.control_store.schema import ledger
from holdfast.resources.project import Project
from tests.builders.control_rows import lose
from tests.builders.recorded_stream import STREAM, a_running_stream, an_open_project, commit

EPOCHS = 3


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with an_open_project(tmp_path) as opened:
        a_running_stream(opened, epochs=EPOCHS + 1, committed=0)
        yield opened


def key_counts(
    rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
) -> dict[int, pd.DataFrame]:
    """An oracle: how often each key came in each epoch."""
    counted = rows.groupby(["epoch", "key"], as_index=False).size()
    return {
        epoch: counted.loc[counted["epoch"] == epoch, ["key", "size"]].reset_index(drop=True)
        for epoch in range(last_epoch + 1)
    }


def put_out(project: Project, epoch: int, frame: pd.DataFrame) -> None:
    """Commit an epoch to the table as the sink does."""
    write_deltalake(
        project.config.table_path(STREAM),
        frame,
        mode="append",
        commit_properties=CommitProperties(
            custom_metadata={"holdfast.stream": STREAM, "holdfast.epoch": str(epoch)}
        ),
    )


def right(project: Project) -> dict[int, pd.DataFrame]:
    from holdfast.observation.proof import input_rows
    from holdfast.streaming.sources.rate import RateSource

    declared: Any = project.config.stream(STREAM).source
    log = project.store.epochs.between(STREAM, 0, EPOCHS - 1)
    return key_counts(input_rows(log, RateSource(declared)), {}, last_epoch=EPOCHS - 1)


def run(project: Project, output: dict[int, pd.DataFrame]) -> Proof:
    """Commit this output, each epoch with its own number of rows, and prove it."""
    for epoch, frame in output.items():
        put_out(project, epoch, frame)
        commit(project, epoch, rows=len(frame))
    return prove(project, STREAM, key_counts)


def test_output_that_equals_the_batch_is_proven(project: Project) -> None:
    proof = run(project, right(project))

    assert proof.holds, proof.faults()
    assert proof.epochs == EPOCHS
    assert proof.rows_in == EPOCHS * 100
    assert proof.rows_out == proof.rows_expected > 0
    assert proof.digest == proof.digest_expected


def test_a_wrong_value_is_found(project: Project) -> None:
    output = right(project)
    output[1].loc[0, "size"] += 1

    proof = run(project, output)

    assert not proof.holds
    assert proof.rows_out == proof.rows_expected
    assert proof.digest != proof.digest_expected


def test_an_epoch_that_is_twice_in_the_table_is_found(project: Project) -> None:
    output = right(project)
    put_out(project, 2, output[2])

    proof = run(project, output)

    assert proof.twice == [2]
    assert proof.rows_out > proof.rows_expected


def test_an_epoch_that_is_missing_is_found(project: Project) -> None:
    output = right(project)
    run(project, {0: output.pop(0)})
    commit(project, 1, rows=len(output.pop(1)))
    run(project, output)
    lose(project.store, ledger, 1, stream=STREAM)

    proof = prove(project, STREAM, key_counts)

    assert proof.missing == [1]
    assert "epochs missing from the ledger: 1" in proof.faults()


def test_an_epoch_in_the_ledger_that_the_table_lacks_is_found(project: Project) -> None:
    output = right(project)
    lost = output.pop(0)
    commit(project, 0, rows=len(lost))

    assert run(project, output).unwritten == [0]


def test_replicas_that_disagreed_are_found(project: Project) -> None:
    proof_before = run(project, right(project))
    project.store.ledger.commit(
        LedgerEntry(stream=STREAM, epoch=0, replica="other", token=2, rows=1, digest="odd")
    )

    assert proof_before.holds
    assert prove(project, STREAM, key_counts).disputed == [0]


def test_a_stream_that_committed_nothing_proves_nothing(project: Project) -> None:
    proof = prove(project, STREAM, key_counts)

    assert not proof.holds
    assert proof.epochs == 0


def test_a_digest_knows_neither_order_nor_library() -> None:
    at = pd.to_datetime(["2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z"])
    frame = pd.DataFrame({"at": at, "word": ["a", "b"], "count": [1, 2]})
    other = frame.iloc[::-1].astype({"count": "int32"})[["word", "count", "at"]]
    other["at"] = other["at"].astype("datetime64[us, UTC]")

    assert digest(frame) == digest(other)
    assert digest(frame) != digest(frame.iloc[:1])
