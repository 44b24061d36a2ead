"""Results of the vault's operations, with figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.ft_policies.snapshots import RetentionVerdict
from holdfast.resources.control_store.records import SnapshotRow
from holdfast.resources.vault.objects.manifest import Manifest, NamedSnapshot, UnusableSnapshotError


@dataclass(frozen=True, slots=True)
class SnapshotRecord(NamedSnapshot):
    """One snapshot as a listing shows it; `created_at` is the object store's time of its manifest."""

    created_at: float
    manifest_bytes: int


@dataclass(frozen=True, slots=True)
class Shipped:
    """A shipped snapshot: `pack_bytes` were sent for `new_bytes` that the parent lacked."""

    manifest: Manifest
    new_bytes: int
    pack_bytes: int
    manifest_bytes: int
    requests: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Restored:
    """A complete and verified checkpoint folder; `fetched_bytes` were not on the disk before."""

    files: int
    bytes: int
    fetched_bytes: int
    requests: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """A snapshot that could not be used, and why."""

    id: str
    reason: str


class NoUsableSnapshotError(UnusableSnapshotError):
    """All snapshots of a stream are damaged; `refused` has the reason of each."""

    def __init__(self, message: str, *, hint: str, refused: Sequence[Refused]) -> None:
        super().__init__(message, hint=hint)
        self.refused = tuple(refused)


@dataclass(frozen=True, slots=True)
class RestoredNewest:
    """The newest snapshot that verified, and the newer ones that did not."""

    manifest: Manifest
    restored: Restored
    refused: list[Refused]


@dataclass(frozen=True, slots=True)
class Pruned:
    """The snapshots that retention kept and dropped; `note` says why no pack was deleted, if so.

    `damaged` are those kept ones whose manifest cannot be read, with the reason.
    """

    verdicts: list[RetentionVerdict]
    dropped: list[str]
    packs_deleted: list[str]
    bytes_freed: int
    note: str = ""
    damaged: Mapping[str, str] = field(default_factory=dict)


def build_snapshot_row(
    stream: str,
    manifest: Manifest,
    manifest_key: str,
    *,
    new_bytes: int = 0,
    requests: int = 0,
    seconds: float = 0.0,
) -> SnapshotRow:
    """The catalogue's row of a snapshot; the manifest does not have the cost of shipping it."""
    return SnapshotRow(
        stream=stream,
        id=manifest.id,
        epoch=manifest.epoch,
        token=manifest.token,
        replica=manifest.replica,
        parent=manifest.parent,
        manifest_key=manifest_key,
        files=len(manifest.files),
        total_bytes=manifest.state_bytes,
        new_bytes=new_bytes,
        requests=requests,
        seconds=seconds,
        created_at=manifest.created_at,
        history=manifest.history,
    )
