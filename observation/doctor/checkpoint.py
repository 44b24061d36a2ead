"""Reading the local checkpoint of a stream's primary, or of its last one."""

from collections.abc import Sequence
from pathlib import Path

from holdfast.ft_policies.doctor.facts import CheckpointFacts, Fault
from holdfast.observation.status import StreamSeen
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.process import HOST
from holdfast.resources.vault.checkpoint_files import list_numbers
from holdfast.resources.vault.integrity import find_changed_files, find_state_faults
from holdfast.resources.vault.manifest import Manifest


def examine_checkpoint(
    seen: StreamSeen, shipped: Manifest | None, *, deep: bool
) -> CheckpointFacts | None:
    """What is in it; `None` if there is none on this host. `shipped` is its own last snapshot."""
    row = seen.primary or seen.last_primary
    if row is None or row.host != HOST:
        return None
    try:
        folder = current_checkpoint(row)
        if folder is None:
            return None
        # An epoch is planned before it is committed: commits that are read first are never ahead.
        commits, offsets = _log(folder / "commits"), _log(folder / "offsets")
        has_metadata = (folder / "metadata").is_file()
        faults = _faults(folder, commits, shipped, deep=deep)
    except FileNotFoundError:  # it was removed while one looked
        return None
    if not (commits or offsets or has_metadata):
        return None
    return CheckpointFacts(
        where=str(folder),
        replica=row.id,
        live=seen.primary is not None,
        has_metadata=has_metadata,
        offsets=offsets,
        commits=commits,
        state_faults=faults,
    )


def _faults(
    folder: Path, commits: Sequence[int], shipped: Manifest | None, *, deep: bool
) -> tuple[Fault, ...]:
    found = list(find_state_faults(folder, commits[-1])) if commits else []
    if shipped is not None:
        known = {fault.path for fault in found}
        found += [
            one for one in find_changed_files(folder, shipped, deep=deep) if one.path not in known
        ]
    return tuple(found)


def current_checkpoint(row: ReplicaRow) -> Path | None:
    """The checkpoint that a replica wrote to last: a secondary that took over has older ones, too."""
    root = Path(row.folder) / "checkpoints"
    found = [one for one in root.iterdir() if one.is_dir()] if root.is_dir() else []
    shown = [one for one in found if not one.name.startswith(".")]
    return max(shown, key=_written_at, default=None)


def _written_at(checkpoint: Path) -> float:
    try:
        parts = (checkpoint, checkpoint / "offsets", checkpoint / "commits")
        return max(part.stat().st_mtime for part in parts if part.exists())
    except (FileNotFoundError, ValueError):
        return 0.0


def _log(folder: Path) -> tuple[int, ...]:
    return tuple(sorted(n for n in list_numbers(folder) if _is_entry(folder / str(n))))


def _is_entry(file: Path) -> bool:
    """Whether it begins with a version, as all that Spark writes there does."""
    try:
        with file.open("rb") as opened:
            return opened.read(1) == b"v"
    except FileNotFoundError:
        return False
