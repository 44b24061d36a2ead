"""The local checkpoint of a stream's primary, or of its last primary, as the doctor reads it."""

from collections.abc import Sequence
from pathlib import Path

from holdfast.ft_policies.doctor.facts import CheckpointFacts, Damage
from holdfast.observation.status import StreamStatus
from holdfast.resources.control_store.records import ReplicaRow
from holdfast.resources.process import HOST
from holdfast.resources.vault.checkpoint.files import list_numbers
from holdfast.resources.vault.checkpoint.integrity import find_changed_files, find_state_damage
from holdfast.resources.vault.objects.manifest import Manifest


def examine_checkpoint(
    status: StreamStatus, shipped: Manifest | None, *, deep: bool
) -> CheckpointFacts | None:
    """Read the checkpoint; `None` if there is none on this host. `shipped` is its newest snapshot."""
    row = status.primary or status.last_primary
    if row is None or row.host != HOST:
        return None
    try:
        folder = current_checkpoint(row)
        if folder is None:
            return None
        # An epoch is planned before it is committed: commits that are read first are never ahead.
        commits, offsets = _log(folder / "commits"), _log(folder / "offsets")
        has_metadata = (folder / "metadata").is_file()
        damaged = _find_damage(folder, commits, shipped, deep=deep)
    except FileNotFoundError:  # it was removed meanwhile
        return None
    if not (commits or offsets or has_metadata):
        return None
    return CheckpointFacts(
        where=str(folder),
        replica=row.id,
        live=status.primary is not None,
        has_metadata=has_metadata,
        offsets=offsets,
        commits=commits,
        state_damage=damaged,
    )


def _find_damage(
    folder: Path, commits: Sequence[int], shipped: Manifest | None, *, deep: bool
) -> tuple[Damage, ...]:
    damaged = list(find_state_damage(folder, commits[-1])) if commits else []
    if shipped is not None:
        paths = {damage.path for damage in damaged}
        changed = find_changed_files(folder, shipped, deep=deep)
        damaged += [damage for damage in changed if damage.path not in paths]
    return tuple(damaged)


def current_checkpoint(row: ReplicaRow) -> Path | None:
    """The checkpoint that a replica wrote to last; a secondary that took over also has older ones."""
    root = Path(row.folder) / "checkpoints"
    folders = [path for path in root.iterdir() if path.is_dir()] if root.is_dir() else []
    checkpoints = [folder for folder in folders if not folder.name.startswith(".")]
    return max(checkpoints, key=_written_at, default=None)


def _written_at(checkpoint: Path) -> float:
    try:
        parts = (checkpoint, checkpoint / "offsets", checkpoint / "commits")
        return max(part.stat().st_mtime for part in parts if part.exists())
    except (FileNotFoundError, ValueError):
        return 0.0


def _log(folder: Path) -> tuple[int, ...]:
    return tuple(sorted(n for n in list_numbers(folder) if _is_entry(folder / str(n))))


def _is_entry(file: Path) -> bool:
    """Whether the file begins with a version, as every log entry of Spark does."""
    try:
        with file.open("rb") as opened:
            return opened.read(1) == b"v"
    except FileNotFoundError:
        return False
