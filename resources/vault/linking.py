"""Linking: what an earlier restore has on the same disk already is not fetched again.

A file of a checkpoint never changes once it carries its final name: Spark writes beside it and
renames. So two folders may share it, and whatever happens in one is not seen in the other.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from resources.vault.manifest import Manifest, PackedFile
from resources.vault.relocating import names_its_folder

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Base:
    """A folder that a snapshot was restored into; Spark may have gone on or tidied up in it since."""

    folder: Path
    manifest: Manifest


def link(base: Base, files: Iterable[PackedFile], root: Path) -> list[PackedFile]:
    """Link what the base verified as the same; returns the rest, which has to be fetched."""
    verified = {
        file.path: file.sha256 for file in base.manifest.files if not names_its_folder(file)
    }
    return [
        file
        for file in files
        if verified.get(file.path) != file.sha256
        or not _linked(base.folder / file.path, root / file.path, file.size_bytes)
    ]


def in_its_folder(file: Path, make: Callable[[], T]) -> T:
    """Make a file; its folder is made only if there is none, while other bytes are on their way."""
    try:
        return make()
    except FileNotFoundError:
        file.parent.mkdir(parents=True, exist_ok=True)
    return make()


def _linked(source: Path, target: Path, size_bytes: int) -> bool:
    """Any failure is one of the disk or of a file that is gone: fetching gets by, or tells."""
    try:
        in_its_folder(target, lambda: target.hardlink_to(source))
        if target.stat().st_size == size_bytes:
            return True
        target.unlink()
    except OSError:
        pass
    return False
