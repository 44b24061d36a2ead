"""The snapshots of a stream, as the doctor reads them: manifests, packs and the catalogue.

Packs are listed after the manifests that name them. A snapshot that is missing from a second listing
was deleted meanwhile, and is left out.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.ft_policies.doctor.facts import CheckpointFacts, Damage, SnapshotFacts
from holdfast.resources.object_store.s3 import ObjectStore
from holdfast.resources.project import Project
from holdfast.resources.vault.checkpoint.integrity import hash_file
from holdfast.resources.vault.objects.manifest import (
    Manifest,
    PackedFile,
    SnapshotName,
    UnusableSnapshotError,
)
from holdfast.resources.vault.objects.ownership import ForeignSnapshotError
from holdfast.resources.vault.restore import find_wrong_digests


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSnapshots:
    """The snapshots of a stream, newest first, and the manifests that can be read."""

    snapshots: tuple[SnapshotFacts, ...]
    without_manifest: tuple[str, ...]
    manifests: Mapping[str, Manifest]

    def newest_of(self, replica: str | None) -> Manifest | None:
        """The newest snapshot that a replica has shipped."""
        own = (snapshot for snapshot in self.snapshots if snapshot.replica == replica)
        manifests = (self.manifests.get(snapshot.id) for snapshot in own)
        return next((manifest for manifest in manifests if manifest is not None), None)


def match_damage(
    stored: StoredSnapshots, checkpoint: CheckpointFacts | None
) -> tuple[SnapshotFacts, ...]:
    """Add to each snapshot the damage of the checkpoint that it contains: files with the same bytes."""
    if checkpoint is None:
        return stored.snapshots
    by_content: dict[tuple[str, bytes], Damage] = {}
    for damage in checkpoint.state_damage:
        with suppress(OSError):  # the file is missing, or a folder is damaged
            by_content[damage.path, hash_file(Path(checkpoint.where) / damage.path)] = damage
    return tuple(
        _add_damage(snapshot, stored.manifests.get(snapshot.id), by_content)
        for snapshot in stored.snapshots
    )


def _add_damage(
    snapshot: SnapshotFacts,
    manifest: Manifest | None,
    by_content: Mapping[tuple[str, bytes], Damage],
) -> SnapshotFacts:
    files = () if manifest is None else manifest.files
    damaged = tuple(by_content[f.path, f.sha256] for f in files if (f.path, f.sha256) in by_content)
    return replace(snapshot, state_damage=damaged)


def packs_prefix(stream: str) -> str:
    """The prefix of a stream's packs in the object store."""
    return f"{stream}/packs/"


def examine_snapshots(
    project: Project, stream: str, *, last_decided: int, deep: bool
) -> StoredSnapshots:
    """Read every manifest and list every pack; `deep` also reads the packs."""
    objects, packs, vault = project.object_store(), packs_prefix(stream), project.vault(stream)
    manifests: dict[str, Manifest] = {}
    unreadable: dict[str, str] = {}
    for record in vault.list():
        try:
            manifests[record.id] = vault.manifest(record.id)
        except ForeignSnapshotError:
            continue  # not this project's to repair
        except UnusableSnapshotError as error:
            unreadable[record.id] = str(error)
    sizes = {pack.key.removeprefix(packs): pack.size_bytes for pack in objects.list(packs)}
    wrong = _wrong_files(objects, packs, manifests.values(), sizes) if deep else {}
    rows = {row.id for row in project.store.snapshots.of(stream, available_only=False)}
    names = [record.name for record in vault.list()]

    def facts(name: SnapshotName) -> SnapshotFacts:
        manifest = manifests.get(name.id)
        rows_after = project.store.epochs.rows_between(stream, name.epoch + 1, last_decided)
        return SnapshotFacts(
            id=name.id,
            epoch=name.epoch,
            replica=name.replica,
            rows_after=rows_after,
            unreadable=unreadable.get(name.id, ""),
            lost_packs=() if manifest is None else _find_lost_packs(manifest, sizes),
            pack_damage=() if manifest is None else _find_damage(manifest, sizes, wrong),
            catalogued=name.id in rows,
        )

    ids = {name.id for name in names}
    return StoredSnapshots(
        snapshots=tuple(facts(n) for n in names if n.id in manifests or n.id in unreadable),
        without_manifest=tuple(
            row.id for row in project.store.snapshots.of(stream) if row.id not in ids
        ),
        manifests=manifests,
    )


def _find_lost_packs(manifest: Manifest, sizes: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(pack for pack in manifest.packs if pack not in sizes)


def _find_damage(
    manifest: Manifest, sizes: Mapping[str, int], wrong: Mapping[PackedFile, str]
) -> tuple[Damage, ...]:
    lengths = [
        Damage(f"pack {pack}", f"it has {sizes[pack]} bytes, not {size}")
        for pack, size in manifest.packs.items()
        if sizes.get(pack, size) != size
    ]
    digests = [Damage(f"pack {f.pack}", wrong[f]) for f in manifest.files if f in wrong]
    return tuple(lengths + digests)


def _wrong_files(
    objects: ObjectStore, packs: str, manifests: Iterable[Manifest], sizes: Mapping[str, int]
) -> dict[PackedFile, str]:
    """The packed files whose digest is wrong; a pack that many manifests name is read once."""
    by_pack: dict[str, set[PackedFile]] = defaultdict(set)
    for manifest in manifests:
        for file in manifest.files:
            if file.pack in sizes:
                by_pack[file.pack].add(file)
    wrong: dict[PackedFile, str] = {}
    for files in by_pack.values():
        if find_wrong_digests(objects, packs, files):
            checked = {file: find_wrong_digests(objects, packs, [file]) for file in files}
            wrong |= {file: problems[0] for file, problems in checked.items() if problems}
    return wrong
