"""A stopped stream of the benchmark `age` that has lived for a few epochs, written without Spark."""

import json
from pathlib import Path

import yaml

from benchmarks.ageing.workload import INPUT, RATE, declaration, input_name, input_rows
from benchmarks.ageing.world import SimulatedClock, SimulatedProject, simulate
from holdfast.ft_policies.tiers import PRIMARY
from holdfast.orchestration.playbooks.launch import declare
from holdfast.resources.control_store.records import (
    EndedBy,
    EpochProposal,
    LedgerEntry,
    Phase,
    ReplicaState,
    Sample,
    Slot,
)
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.project import Project
from holdfast.streaming.sources.files import TAKEN_UNTIL
from tests.builders.checkpoints import SyntheticCheckpoint
from tests.builders.control_rows import a_recovery, lost_primary, record_snapshot
from tests.builders.delta_tables import a_commit, a_table, words

EPOCHS = 6
REPLICA = "age_rate-0000000a"


def write_project(root: Path, kind: str) -> str:
    """Declare the stream; returns its name."""
    declared = declaration(kind, root)
    folder = root / "configs" / "streams"
    folder.mkdir(parents=True)
    (folder / f"{declared['name']}.yaml").write_text(yaml.safe_dump(declared))
    (root / INPUT).mkdir()
    return str(declared["name"])


def live(project: Project, stream: str, at: float) -> SimulatedProject:
    """Let the stream live for some epochs, lose its primary and be recovered; the project under a clock."""
    simulated = simulate(project, SimulatedClock(at))
    declare(project.config, project.store, stream)
    _commit_epochs(simulated, stream)
    _lose_primary(simulated, stream)
    project.store.samples.write(
        [
            Sample(stream=stream, replica=REPLICA, name=name, value=1.0, epoch=EPOCHS - 1)
            for name in (SampleName.LAG_ROWS, SampleName.CPU_CORES)
        ]
    )
    checkpoint = SyntheticCheckpoint(project.config.home / "checkpoint")
    checkpoint.commit(EPOCHS)
    for offsets in (checkpoint.root / "offsets").glob("[0-9]*"):
        offsets.write_text(f"v1\n{{}}\n{json.dumps({'epoch': int(offsets.name)})}")
    vault = simulated.vault(stream)
    shipped = vault.ship(
        checkpoint.root, EPOCHS - 1, token=1, replica=REPLICA, parent=None, conf={},
        created_at=at, scratch=project.config.home / "scratch",
    )  # fmt: skip
    record_snapshot(project.store, vault, stream, shipped.manifest.id)
    return simulated


def _commit_epochs(project: SimulatedProject, stream: str) -> None:
    table = project.config.table_path(stream)
    a_table(table)
    for epoch in range(EPOCHS):
        start, end, taken = _slice(project, stream, epoch)
        project.store.epochs.propose(
            EpochProposal(
                stream=stream,
                epoch=epoch,
                start=start,
                end=end,
                input=taken,
                rows=RATE,
                token=1,
                proposer=REPLICA,
            )
        )
        a_commit(table, epoch, words(RATE), stream=stream)
        entry = LedgerEntry(
            stream=stream, epoch=epoch, replica=REPLICA, token=1, rows=RATE, digest=f"d{epoch}"
        )
        project.store.ledger.commit(entry)


def _slice(
    project: SimulatedProject, stream: str, epoch: int
) -> tuple[dict[str, object], dict[str, object], dict[str, object]]:
    if project.config.stream(stream).source.kind == "rate":
        origin, first = project.clock.now(), epoch * RATE
        start, end = ({"origin": origin, "rows": rows} for rows in (first, first + RATE))
        return start, end, {"first": first, "rows": RATE, "start": origin}
    path = project.config.root / INPUT / input_name(epoch)
    path.write_bytes(input_rows(epoch))
    about = path.stat()
    file = {"name": path.name, "size": about.st_size, "changed_ns": about.st_mtime_ns, "rows": RATE}
    start, end = ({"files": n, TAKEN_UNTIL: about.st_mtime_ns} for n in (epoch, epoch + 1))
    return start, end, {"files": [file]}


def _lose_primary(project: SimulatedProject, stream: str) -> None:
    store, folder = project.store, project.config.home / "replicas" / REPLICA
    folder.mkdir(parents=True)
    (folder / "replica.log").write_text("lived\n")
    store.replicas.register(
        id=REPLICA, stream=stream, slot=Slot.PRIMARY, desired=PRIMARY, host="here",
        folder=str(folder), rollout=0,
    )  # fmt: skip
    store.leases.take(stream, REPLICA, 3.0)
    store.replicas.end(REPLICA, ReplicaState.DEAD, by=EndedBy.PLAYBOOK, reason="lost")
    incident = a_recovery(store, lost_primary(REPLICA, stream=stream))
    store.journal.write(
        stream=stream, playbook="recover", run="run-1", incident=incident.id, step="fence",
        phase=Phase.DONE, seconds=0.1, detail={"replica": REPLICA},
    )  # fmt: skip
    store.incidents.close(incident.id, "recovered")
