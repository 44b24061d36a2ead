"""Looking for what is wrong in the state of a local checkpoint: in every file that Spark reads to go on."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from ft_policies.doctor.facts import Fault
from ft_policies.errors import PermanentError
from resources.vault.cut import entries, numbered_folders, stores
from resources.vault.manifest import Manifest, PackedFile
from resources.vault.relocating import names_its_folder
from resources.vault.soundness import codec_of, fault_of
from resources.vault.state_files import chain, shared_sizes


def state_faults(checkpoint: Path, epoch: int) -> Iterator[Fault]:
    """What keeps Spark from going on after an epoch: each store must be reachable at its version."""
    codec = codec_of(checkpoint)
    for operator in numbered_folders(checkpoint / "state"):
        home = f"state/{operator}"
        try:
            found = stores(checkpoint, home, epoch)
        except FileNotFoundError:
            continue
        except (PermanentError, ValueError, KeyError, IndexError) as error:
            yield Fault(f"{home}/_metadata", str(error))
            continue
        for store in found:
            yield from _store_faults(checkpoint, store, epoch + 1, codec)


def unlike(checkpoint: Path, manifest: Manifest, *, deep: bool) -> Iterator[Fault]:
    """State files that are not as they were when this checkpoint was shipped; `deep` reads them."""
    for file in manifest.files:
        if file.path.startswith("state/") and not names_its_folder(file):
            reason = _unlike(checkpoint / file.path, file, deep=deep)
            if reason is not None:
                yield Fault(file.path, reason)


def _unlike(local: Path, file: PackedFile, *, deep: bool) -> str | None:
    """Spark has deleted what it needs no more: only what is there is compared."""
    try:
        size_bytes = local.stat().st_size
        if size_bytes != file.size_bytes:
            return f"it has {size_bytes} bytes, and {file.size_bytes} when it was shipped"
        if deep and digest_of(local) != file.sha256:
            return "it has another digest than when it was shipped"
    except FileNotFoundError:
        pass
    return None


def digest_of(file: Path) -> bytes:
    """The SHA-256 of a file, as manifests have it."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").digest()


def _store_faults(checkpoint: Path, store: str, version: int, codec: str) -> Iterator[Fault]:
    home = checkpoint / store
    names = [entry.name for entry in entries(home) if entry.is_file()]
    try:
        found = chain(names, version, store=store)
    except PermanentError as error:
        yield Fault(store, str(error).removeprefix(f"{store} "))
        return
    for name in found.names:
        reason = fault_of(home / name, codec=codec)
        if reason is not None:
            yield Fault(f"{store}/{name}", reason)
        elif name.endswith(".zip"):
            yield from _shared_faults(home, store, name)


def _shared_faults(home: Path, store: str, archive: str) -> Iterator[Fault]:
    try:
        needed = shared_sizes(home / archive)
    except FileNotFoundError:
        return
    except PermanentError as error:
        yield Fault(f"{store}/{archive}", str(error))
        return
    for name, size_bytes in needed.items():
        file = home / name
        if not file.is_file():
            if (home / archive).is_file():
                yield Fault(f"{store}/{name}", f"it is missing, and {archive} needs it")
        elif file.stat().st_size != size_bytes:
            told = f"it has {file.stat().st_size} bytes, and {archive} names {size_bytes}"
            yield Fault(f"{store}/{name}", told)
        elif (reason := fault_of(file)) is not None:
            yield Fault(f"{store}/{name}", reason)
