"""All applications in one driver that is killed -9 in the middle: what came out is what their oracles say.

The second driver goes on from early snapshots, so that it computes again what the first one had computed:
the ledger compares their digests, epoch by epoch.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa

from benchmarks.streams.app_run import DATA, AppRun, checkpoint_of, generated_run
from holdfast.apps.catalogue import list_queries
from holdfast.assets.expectations import validate
from holdfast.configs.references import load
from holdfast.observation.tables import open_table
from holdfast.resources.control_store.schema import ledger_copies
from holdfast.resources.vault.vault import SnapshotVault
from holdfast.streaming.spec import ReplicaSpec
from tests.fakes.object_store import InMemoryObjectStore
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

EVENTS, FILES = 200_000, 4
SNAPSHOT_EPOCH, KILL_EPOCH = 0, 1
CORE = {"word_count_lines"}
QUERIES = [
    pytest.param(query.stream, marks=[] if query.stream in CORE else [pytest.mark.slow])
    for query in list_queries()
]


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[dict[str, AppRun]]:
    """Every query that is tested, after a driver was killed and another one has finished its work."""
    root = tmp_path_factory.mktemp("applications")
    here = [item for item in request.session.items if item.path == request.path]
    tested = {item.callspec.params["stream"] for item in here if isinstance(item, pytest.Function)}
    with ExitStack() as opened:
        chosen = [query for query in list_queries() if query.stream in tested]
        made = {"events": EVENTS, "files": FILES, "seed": 5}
        all_of_them = [opened.enter_context(generated_run(query, root, **made)) for query in chosen]
        held_back = [hold_back(folder) for folder in (root / DATA).iterdir()]
        killed = [(run, run.replica("one")) for run in all_of_them]
        with driver(root, "one", "--for-ever") as first:
            until(lambda: all(committed(run) >= KILL_EPOCH for run in all_of_them), first)
            kill(first)
        for path in (path for paths in held_back for path in paths):
            path.rename(path.with_name(path.name.removeprefix(".")))
        for run, spec in killed:
            restore(spec, run.replica("two"))
        with driver(root, "two") as second:
            until(lambda: second.poll() is not None, None)
            assert second.returncode == 0
        yield {run.query.stream: run for run in all_of_them}


@pytest.fixture(scope="module")
def again(runs: dict[str, AppRun]) -> dict[str, AppRun]:
    """The same, after a third driver has computed everything again and sent it, as a second active replica does."""
    for run in runs.values():
        run.replica("three")
    root = next(iter(runs.values())).project.config.root.parent
    with driver(root, "three", "--again") as third:
        until(lambda: third.poll() is not None, None)
        assert third.returncode == 0
    return runs


def hold_back(folder: Path) -> Sequence[Path]:
    """The second half of the files arrives when the first driver is dead."""
    files = sorted(folder.iterdir())
    return [path.rename(path.with_name(f".{path.name}")) for path in files[len(files) // 2 :]]


@contextmanager
def driver(root: Path, replica: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A driver process, and nothing of it afterwards."""
    command = [sys.executable, "-m", "tests.live.app_driver", str(root), replica, *options]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """kill -9 of its Python process; its Java ends by itself a moment later, or is ended."""
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    _, left = psutil.wait_procs(family, timeout=20)
    for process in left:
        process.kill()


def until(condition: Callable[[], bool], lives: subprocess.Popen[bytes] | None) -> None:
    def holds() -> bool:
        is_met = condition()
        assert is_met or lives is None or lives.poll() is None, "the driver has ended by itself"
        return is_met

    wait_until(holds, within_seconds=600, every_seconds=0.1)


def committed(run: AppRun) -> int:
    last = run.project.store.ledger.last(run.query.stream)
    return -1 if last is None else last.epoch


def restore(killed: ReplicaSpec, successor: ReplicaSpec) -> None:
    """A snapshot of an early epoch, shipped and restored as a primary and its successor would."""
    vault = SnapshotVault(InMemoryObjectStore(), killed.stream.name)
    shipped = vault.ship(
        checkpoint_of(killed),
        SNAPSHOT_EPOCH,
        token=1,
        replica=killed.replica,
        parent=None,
        conf={},
        created_at=0.0,
        scratch=killed.folder / "scratch",
    )
    vault.restore(shipped.manifest, checkpoint_of(successor))


@pytest.mark.parametrize("stream", QUERIES)
def test_a_killed_application_puts_out_what_its_oracle_says(
    runs: dict[str, AppRun], stream: str
) -> None:
    run = runs[stream]
    proof = run.prove()
    assert proof.faults() == []
    assert proof.rows_in > 0.9 * EVENTS
    assert proof.rows_out > 0
    entries = run.project.store.ledger.between(stream, 0, proof.epochs)
    assert {entry.replica for entry in entries[: KILL_EPOCH + 1]} == {"one"}
    assert entries[-1].replica == "two"


@pytest.mark.parametrize("stream", QUERIES)
def test_what_cannot_be_read_is_a_dead_letter_and_the_rest_meets_the_expectations(
    runs: dict[str, AppRun], stream: str
) -> None:
    run = runs[stream]
    aside = run.dead_letters()
    assert aside
    assert aside == run.read_rejected_lines()
    table, suite = open_table(run.project, stream), run.query.declaration["expectations"]
    assert table is not None
    assert validate(table.to_pandas(), load(suite)()).passed


@pytest.mark.slow
@pytest.mark.parametrize("stream", QUERIES)
def test_a_replica_that_computes_every_epoch_again_comes_to_the_same_digests(
    again: dict[str, AppRun], stream: str
) -> None:
    store = again[stream].project.store
    committed = {entry.epoch: entry.digest for entry in store.ledger.between(stream, 0, 99)}
    of_three = sa.select(ledger_copies).where(
        ledger_copies.c.stream == stream, ledger_copies.c.replica == "three"
    )
    computed = {row["epoch"]: row["digest"] for row in store._database.fetch(of_three)}
    assert len(committed) > FILES
    assert computed == committed
