"""Reading a stream's snapshots: manifests, packs and what the catalogue has of them.

Packs are listed after the manifests that name them, and what is gone from a second listing was
dropped while one looked.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.ft_policies.doctor.facts import CheckpointFacts, Fault, SnapshotFacts
from holdfast.resources.object_store.s3 import ObjectStore
from holdfast.resources.project import Project
from holdfast.resources.vault.integrity import hash_file
from holdfast.resources.vault.manifest import (
    Manifest,
    PackedFile,
    SnapshotName,
    UnusableSnapshotError,
)
from holdfast.resources.vault.restore import find_wrong_digests


@dataclass(frozen=True, slots=True, kw_only=True)
class Vaulted:
    """The snapshots of a stream, newest first, and the manifests of those that have one."""

    snapshots: tuple[SnapshotFacts, ...]
    without_manifest: tuple[str, ...]
    manifests: Mapping[str, Manifest]

    def newest_of(self, replica: str | None) -> Manifest | None:
        """The newest snapshot that a replica has shipped."""
        found = (self.manifests.get(one.id) for one in self.snapshots if one.replica == replica)
        return next((one for one in found if one is not None), None)


def with_their_damage(
    vaulted: Vaulted, checkpoint: CheckpointFacts | None
) -> tuple[SnapshotFacts, ...]:
    """The snapshots; one that has a state file just as it is damaged on the disk was shipped so."""
    if checkpoint is None:
        return vaulted.snapshots
    found: dict[tuple[str, bytes], Fault] = {}
    for fault in checkpoint.state_faults:
        with suppress(OSError):  # it is missing, or what is wrong is a folder
            found[fault.path, hash_file(Path(checkpoint.where) / fault.path)] = fault
    return tuple(
        _with_damage(one, vaulted.manifests.get(one.id), found) for one in vaulted.snapshots
    )


def _with_damage(
    one: SnapshotFacts, manifest: Manifest | None, found: Mapping[tuple[str, bytes], Fault]
) -> SnapshotFacts:
    files = () if manifest is None else manifest.files
    damaged = tuple(found[f.path, f.sha256] for f in files if (f.path, f.sha256) in found)
    return replace(one, state_faults=damaged)


def packs_of(stream: str) -> str:
    """The prefix of a stream's packs in the object store."""
    return f"{stream}/packs/"


def examine_snapshots(world: Project, stream: str, *, last_decided: int, deep: bool) -> Vaulted:
    """Read every manifest and list every pack; `deep` reads the packs, too."""
    objects, packs, vault = world.object_store(), packs_of(stream), world.vault(stream)
    manifests: dict[str, Manifest] = {}
    unreadable: dict[str, str] = {}
    for record in vault.list():
        try:
            manifests[record.id] = vault.manifest(record.id)
        except UnusableSnapshotError as error:
            unreadable[record.id] = str(error)
    sizes = {one.key.removeprefix(packs): one.size_bytes for one in objects.list(packs)}
    wrong = _wrong_files(objects, packs, manifests.values(), sizes) if deep else {}
    rows = {row.id for row in world.store.snapshots.of(stream, available_only=False)}
    there = [record.name for record in vault.list()]

    def facts(name: SnapshotName) -> SnapshotFacts:
        manifest = manifests.get(name.id)
        rows_after = world.store.epochs.rows_between(stream, name.epoch + 1, last_decided)
        return SnapshotFacts(
            id=name.id,
            epoch=name.epoch,
            replica=name.replica,
            rows_after=rows_after,
            unreadable=unreadable.get(name.id, ""),
            lost_packs=() if manifest is None else _lost(manifest, sizes),
            pack_faults=() if manifest is None else _faults(manifest, sizes, wrong),
            catalogued=name.id in rows,
        )

    known = {name.id for name in there}
    return Vaulted(
        snapshots=tuple(facts(n) for n in there if n.id in manifests or n.id in unreadable),
        without_manifest=tuple(
            row.id for row in world.store.snapshots.of(stream) if row.id not in known
        ),
        manifests=manifests,
    )


def _lost(manifest: Manifest, sizes: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(pack for pack in manifest.packs if pack not in sizes)


def _faults(
    manifest: Manifest, sizes: Mapping[str, int], wrong: Mapping[PackedFile, str]
) -> tuple[Fault, ...]:
    lengths = [
        Fault(f"pack {pack}", f"it has {sizes[pack]} bytes, not {size}")
        for pack, size in manifest.packs.items()
        if sizes.get(pack, size) != size
    ]
    digests = [Fault(f"pack {f.pack}", wrong[f]) for f in manifest.files if f in wrong]
    return tuple(lengths + digests)


def _wrong_files(
    objects: ObjectStore, packs: str, manifests: Iterable[Manifest], sizes: Mapping[str, int]
) -> dict[PackedFile, str]:
    """The packed files that are not as they were; many manifests name one pack, it is read once."""
    by_pack: dict[str, set[PackedFile]] = defaultdict(set)
    for manifest in manifests:
        for file in manifest.files:
            if file.pack in sizes:
                by_pack[file.pack].add(file)
    wrong: dict[PackedFile, str] = {}
    for files in by_pack.values():
        if find_wrong_digests(objects, packs, files):
            told = {file: find_wrong_digests(objects, packs, [file]) for file in files}
            wrong |= {file: problems[0] for file, problems in told.items() if problems}
    return wrong
