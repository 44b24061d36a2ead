"""Copies of snapshots from another stream's vault or another object store."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from holdfast.resources.object_store.s3 import ObjectStore
from holdfast.resources.vault.objects.manifest import Manifest, UnusableSnapshotError
from holdfast.resources.vault.objects.pack import disk_errors
from holdfast.resources.vault.restore import find_wrong_digests

ReadPack: TypeAlias = Callable[[str], Iterator[bytes]]


def copy_packs(
    store: ObjectStore,
    packs: str,
    manifest: Manifest,
    read_pack: ReadPack,
    *,
    stream: str,
    owner: str,
    announce: Callable[[], None],
) -> Manifest:
    """Copy the packs of a snapshot and verify them; returns the manifest of the copy, which is not stored yet.

    In another stream the copy is a first snapshot, of a stream that was never restored. `announce` renews the
    intent of the copy.
    """
    for pack in manifest.packs:
        announce()
        _put_parts(store, packs + pack, read_pack(pack))
    announce()
    problems = find_wrong_digests(store, packs, manifest.files)
    if problems:
        raise UnusableSnapshotError(
            f"the copy of snapshot {manifest.id} of {manifest.stream} is damaged: {problems[0]}",
            hint="restore another snapshot; run `holdfast snapshots verify` to find one that is not damaged",
        )
    history = manifest.history if manifest.stream == stream else 0
    name = replace(manifest.name, history=history)
    return replace(manifest, stream=stream, name=name, parent=None, owner=owner)


def _put_parts(store: ObjectStore, key: str, parts: Iterable[bytes]) -> None:
    """Store an object that comes in parts, with one request."""
    folder = Path(tempfile.gettempdir())
    with disk_errors("copying a pack", folder), tempfile.TemporaryFile(dir=folder) as scratch:
        for part in parts:
            scratch.write(part)
        scratch.seek(0)
        store.put(key, scratch)
