"""The snapshot vault of one stream: ship, list, restore, verify and prune.

A snapshot is a few packs and one manifest. The manifest is the commit: it is written last, and a pack that
no manifest names is garbage. `checkpoint_files` selects the files to ship; `pack` and `restore` copy them.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.snapshots import RetentionPolicy
from holdfast.resources.clock import SYSTEM_CLOCK, Clock
from holdfast.resources.object_store.s3 import MissingObjectError, ObjectStore
from holdfast.resources.vault.checkpoint.files import cut
from holdfast.resources.vault.checkpoint.integrity import require_whole
from holdfast.resources.vault.copy import copy_packs
from holdfast.resources.vault.objects.intents import Intent, LostPacksError, read_intents
from holdfast.resources.vault.objects.listing import SUFFIX, Listing, Mark, read_listing
from holdfast.resources.vault.objects.manifest import (
    Manifest,
    PackedFile,
    SnapshotName,
    UnusableSnapshotError,
)
from holdfast.resources.vault.objects.manifest_reader import decode, read_limited
from holdfast.resources.vault.objects.ownership import Ownership
from holdfast.resources.vault.objects.pack import (
    PACK_LIMIT_BYTES,
    LocalPack,
    OutdatedCutError,
    count_new_bytes,
    disk_errors,
    find_reusable,
    pack,
    packs_in_use,
)
from holdfast.resources.vault.prune import (
    ReadListing,
    apply_retention,
    collect_set_aside_packs,
    find_garbage,
)
from holdfast.resources.vault.records import (
    NoUsableSnapshotError,
    Pruned,
    Refused,
    Restored,
    RestoredNewest,
    Shipped,
    SnapshotRecord,
)
from holdfast.resources.vault.restore import (
    LinkSource,
    find_wrong_digests,
    find_wrong_packs,
    restore_files,
)

_CUT_ATTEMPTS = 3
_SHORT_SECONDS = 900.0  # well below the grace of pruning
_SHORT_BYTES = 64 << 20
Progress: TypeAlias = Callable[[int, int], None]
Problems: TypeAlias = list[str]


class SnapshotVault:
    """The snapshots of one stream in an object store; those of replicas that were `rolled_back` do not count.

    Without a `project_id` snapshots of all projects are accepted: to copy from another project's vault.
    """

    def __init__(
        self,
        store: ObjectStore,
        stream: str,
        *,
        rolled_back: Callable[[], Mapping[str, float]] = dict,
        project_id: Callable[[], str] = str,
        pack_limit_bytes: int = PACK_LIMIT_BYTES,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not stream or "/" in stream:
            raise PermanentError(
                f"{stream!r} cannot be the name of a stream", hint="use a name without slashes"
            )
        self._store = store
        self._stream = stream
        self._rolled_back = rolled_back
        self._ownership = Ownership(store, project_id)
        self._pack_limit_bytes = pack_limit_bytes
        self._clock = clock
        self._manifests = f"{stream}/manifests/"
        self._packs = f"{stream}/packs/"
        self._intents = f"{stream}/intents/"

    def list(self) -> "list[SnapshotRecord]":
        """All snapshots that count, newest first, with one request."""
        return self.listing().snapshots

    def listing(self) -> Listing:
        """The snapshots that count and the superseded ones, with one request."""
        return read_listing(self._store, self._manifests, self._rolled_back())

    def list_readable(self) -> Sequence[SnapshotRecord]:
        """Own snapshots with a readable manifest, superseded ones too, with a request for each snapshot.

        Raises if the bucket and prefix belong to another project.
        """
        self._ownership.require_prefix(claim=False)
        return ReadListing.read(self.listing(), self.manifest).readable

    def mark(self, history: int, *, after_epoch: int) -> None:
        """Begin a history: snapshots of older ones beyond the epoch no longer count, whenever they are shipped."""
        self._ownership.require_prefix(claim=True)
        mark = Mark(history, after_epoch)
        self._store.put(self._manifests + mark.file, mark.encode())

    def adopt(self, manifest: Manifest, source: "SnapshotVault") -> Manifest:
        """Copy a snapshot of another vault, every byte verified; the manifest is written last."""
        self._ownership.require_prefix(claim=True)
        intent = self._intent(manifest)
        copy = copy_packs(
            self._store,
            self._packs,
            manifest,
            source.read_pack,
            stream=self._stream,
            owner=self._ownership.project_id,
            announce=intent.announce,
        )
        self._store.put(self.manifest_key(copy.id), copy.encode())
        self._require_packs(copy)
        intent.withdraw()
        return copy

    def read_pack(self, name: str) -> Iterator[bytes]:
        return self._store.read(self._packs + name)

    def manifest_key(self, snapshot_id: str) -> str:
        return f"{self._manifests}{snapshot_id}{SUFFIX}"

    def manifest(self, snapshot_id: str) -> Manifest:
        """Read one manifest; `ForeignSnapshotError` if it is another project's."""
        try:
            parts = self._store.read(self.manifest_key(snapshot_id))
            body = read_limited(parts, snapshot_id=snapshot_id)
        except MissingObjectError as error:
            raise UnusableSnapshotError(
                f"there is no snapshot {snapshot_id} of stream {self._stream}",
                hint="run `holdfast snapshots list` to see all snapshots",
            ) from error
        manifest = decode(body, snapshot_id=snapshot_id, stream=self._stream)
        return self._ownership.require_own(manifest)

    def ship(
        self,
        checkpoint: Path,
        epoch: int,
        *,
        token: int,
        replica: str,
        parent: Manifest | None,
        conf: Mapping[str, str],
        created_at: float,
        scratch: Path,
        history: int = 0,
    ) -> Shipped:
        """Store the files that the checkpoint needs after `epoch`: new files in packs, then the manifest.

        `PermanentError` if a new state file is truncated, `LostPacksError` if packs that the snapshot needs were
        deleted meanwhile. `parent` must be the snapshot that this folder
        was restored from or last shipped as: a file of the same path and length counts as the same file.
        """
        began = self._clock.monotonic()
        name = SnapshotName(epoch, token, replica, history)
        self._check_parent(parent, name)
        if parent is not None and parent.name == name:
            return Shipped(parent, 0, 0, 0, 0, self._clock.monotonic() - began)
        self._ownership.require_prefix(claim=True)
        with (
            disk_errors("packing a snapshot", scratch),
            _ensure_folder(scratch),
            tempfile.TemporaryDirectory(dir=scratch, prefix="ship-") as folder,
        ):
            reused, packs = self._capture(checkpoint, name, parent, Path(folder))
            files = [*reused, *(file for local in packs for file in local.files)]
            older = dict(parent.packs) if parent is not None else {}
            manifest = Manifest(
                stream=self._stream,
                name=name,
                parent=parent.id if parent is not None else None,
                created_at=created_at,
                spark_version=metadata.version("pyspark"),
                conf=dict(conf),
                packs=packs_in_use(files, older | {p.name: p.size_bytes for p in packs}),
                files=tuple(sorted(files, key=lambda file: file.path)),
                owner=self._ownership.project_id,
            )
            encoded = manifest.encode()
            is_long = _takes_long(packs, parent, created_at)
            send = self._send_announced if is_long else self._send
            requests = send(manifest, packs, encoded)
        return Shipped(
            manifest=manifest,
            new_bytes=count_new_bytes(manifest, parent),
            pack_bytes=sum(local.size_bytes for local in packs),
            manifest_bytes=len(encoded),
            requests=requests,
            seconds=self._clock.monotonic() - began,
        )

    def restore(
        self,
        manifest: Manifest,
        into: Path,
        *,
        base: LinkSource | None = None,
        progress: Progress | None = None,
        durable: bool = True,
    ) -> Restored:
        """Restore a snapshot into a new folder, every digest verified.

        Files that `base` has verified are linked, not fetched. Without `durable` it does not wait for the
        disk: for callers that restore again after a crash of the machine.
        """
        began = self._clock.monotonic()
        fetched = restore_files(
            self._store, self._packs, manifest, into, progress, base=base, durable=durable
        )
        files, took = len(manifest.files), self._clock.monotonic() - began
        return Restored(files, manifest.state_bytes, fetched.bytes, fetched.requests, took)

    def restore_newest(self, into: Path, *, durable: bool = True) -> RestoredNewest | None:
        """Restore the newest snapshot that is not damaged; `None` if there is no snapshot.

        `NoUsableSnapshotError` if all are damaged. If the store cannot be reached, its error is raised.
        """
        self._ownership.require_prefix(claim=False)
        refused: list[Refused] = []
        for record in self.list():
            try:
                manifest = self.manifest(record.id)
                restored = self.restore(manifest, into, durable=durable)
            except UnusableSnapshotError as error:
                refused.append(Refused(record.id, str(error)))
                continue
            return RestoredNewest(manifest, restored, refused)
        if refused:
            raise NoUsableSnapshotError(
                f"none of the {len(refused)} snapshots of stream {self._stream} can be restored; "
                f"the newest: {refused[0].reason}",
                hint="run `holdfast snapshots verify` to see the damage of each",
                refused=refused,
            )
        return None

    def verify(self, snapshot_id: str) -> Problems:
        """Read a snapshot in full; returns its problems, none if it can be restored."""
        try:
            manifest = self.manifest(snapshot_id)
        except UnusableSnapshotError as error:
            return [str(error)]
        sizes = self._pack_sizes()
        present = [file for file in manifest.files if file.pack in sizes]
        return find_wrong_packs(manifest, sizes) + find_wrong_digests(
            self._store, self._packs, present
        )

    def wrong_packs(self, manifest: Manifest) -> Problems:
        """The problems of a snapshot that a listing of its packs shows."""
        return find_wrong_packs(manifest, self._pack_sizes())

    def prune(
        self,
        policy: RetentionPolicy,
        *,
        dry_run: bool = False,
        grace_seconds: float = 3600.0,
    ) -> Pruned:
        """Drop what the policy does not keep; a dry run only lists it."""
        self._ownership.require_prefix(claim=not dry_run)
        now = self._store.read_clock()
        intents = read_intents(self._store, self._intents, now=now)
        listed = ReadListing.read(self.listing(), self.manifest)
        verdicts = apply_retention(policy, listed.own, now=now, grace_seconds=grace_seconds)
        verdicts += listed.keep_foreign()
        dropped = [verdict.snapshot.id for verdict in verdicts if not verdict.keep]
        packs = self._store.list(self._packs)
        named, damaged = listed.collect_named_packs(verdicts), listed.find_unreadable(verdicts)
        unreadable = next(iter(damaged.values()), intents.unreadable)
        set_aside = collect_set_aside_packs(self._store, self._stream)
        keys = {self._packs + name for name in named.union(intents.packs, set_aside)}
        garbage = (
            [] if unreadable else find_garbage(packs, keys, now=now, grace_seconds=grace_seconds)
        )
        if not dry_run:
            self._store.delete([self.manifest_key(snapshot) for snapshot in dropped])
            self._store.delete([*(pack.key for pack in garbage), *intents.expired])
        return Pruned(
            verdicts=verdicts,
            dropped=dropped,
            packs_deleted=[pack.key.removeprefix(self._packs) for pack in garbage],
            bytes_freed=sum(pack.size_bytes for pack in garbage),
            note=f"no pack was deleted: {unreadable}" if unreadable else "",
            damaged=damaged,
        )

    def _pack_sizes(self) -> dict[str, int]:
        return {
            o.key.removeprefix(self._packs): o.size_bytes for o in self._store.list(self._packs)
        }

    def _check_parent(self, parent: Manifest | None, name: SnapshotName) -> None:
        if parent is not None and (parent.stream != self._stream or parent.epoch > name.epoch):
            raise PermanentError(
                f"snapshot {name.id} of {self._stream} cannot build on {parent.id} of {parent.stream}",
                hint="pass the snapshot that this checkpoint was restored from or last shipped as",
            )

    def _capture(
        self,
        checkpoint: Path,
        name: SnapshotName,
        parent: Manifest | None,
        scratch: Path,
    ) -> tuple[Sequence[PackedFile], Sequence[LocalPack]]:
        """Copy the new files; if Spark removes one meanwhile, cut again."""
        outdated: Exception | None = None
        stored = set() if parent is None else parent.paths
        for _ in range(_CUT_ATTEMPTS):
            try:
                files = cut(checkpoint, name.epoch, stored=stored)
                reused = find_reusable(files, parent)
                fresh = [file for file in files if file.path not in reused]
                state = (file.path for file in fresh if file.path.startswith("state/"))
                require_whole(checkpoint, state)
                limit = self._pack_limit_bytes
                packs = pack(checkpoint, fresh, scratch, stem=name.id, limit_bytes=limit)
                return list(reused.values()), packs
            except (OutdatedCutError, FileNotFoundError) as error:
                outdated = error
        raise TransientError(
            f"the checkpoint changes faster than epoch {name.epoch} can be copied: {outdated}",
            hint="ship a newer epoch, or raise spark.sql.streaming.minBatchesToRetain",
        ) from outdated

    def _intent(self, manifest: Manifest) -> Intent:
        return Intent(self._store, f"{self._intents}{manifest.id}.json", tuple(manifest.packs))

    def _send(self, manifest: Manifest, packs: Sequence[LocalPack], encoded: bytes) -> int:
        """Store the packs, then the manifest; returns the number of requests."""
        began_at = self._clock.now()
        for local in packs:
            self._put_pack(local)
        self._store.put(self.manifest_key(manifest.id), encoded)
        if self._clock.now() - began_at < _SHORT_SECONDS:
            return len(packs) + 1
        self._require_packs(manifest)
        return len(packs) + 2

    def _send_announced(
        self, manifest: Manifest, packs: Sequence[LocalPack], encoded: bytes
    ) -> int:
        """The same with an intent, renewed with each pack; a listing then shows that all packs are there."""
        intent = self._intent(manifest)
        intent.announce()
        for local in packs:
            self._put_pack(local)
            intent.announce()
        self._store.put(self.manifest_key(manifest.id), encoded)
        self._require_packs(manifest)
        intent.withdraw()
        return 2 * len(packs) + 4

    def _put_pack(self, local: LocalPack) -> None:
        with local.source.open("rb") as body:
            self._store.put(self._packs + local.name, body)

    def _require_packs(self, manifest: Manifest) -> None:
        """Take the manifest back if the listing lacks one of its packs."""
        problems = self.wrong_packs(manifest)
        if problems:
            self._store.delete([self.manifest_key(manifest.id)])
            raise LostPacksError(
                f"snapshot {manifest.id} was taken back: {problems[0]}",
                hint="wait: the next snapshot is complete by itself; look for what deletes objects of the bucket",
            )


def _takes_long(packs: Sequence[LocalPack], parent: Manifest | None, created_at: float) -> bool:
    """Whether pruning elsewhere could delete packs before the manifest names them."""
    is_large = len(packs) > 1 or sum(local.size_bytes for local in packs) > _SHORT_BYTES
    return is_large or (parent is not None and created_at - parent.created_at > _SHORT_SECONDS)


@contextmanager
def _ensure_folder(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    yield
