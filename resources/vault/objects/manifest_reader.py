"""Reading a stored manifest: it comes from outside, so all of it is checked before any of it is used."""

import base64
import binascii
import json
import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.vault.objects.manifest import (
    FORMAT,
    MOST_BYTES,
    SAFE_NAME,
    Manifest,
    PackedFile,
    SnapshotName,
    UnusableSnapshotError,
)

_MOST_PATH_BYTES = 1024
_MOST_NAME_BYTES = 255
_DIGEST_BYTES = 32
_GZIP = 31


def read_limited(parts: Iterable[bytes], *, snapshot_id: str) -> bytes:
    """Join the parts of a stored manifest; `UnusableSnapshotError` if there are too many bytes."""
    body, size = [], 0
    for part in parts:
        size += len(part)
        if size > MOST_BYTES:
            raise _unreadable(snapshot_id, f"it has more than {MOST_BYTES} bytes")
        body.append(part)
    return b"".join(body)


def decode(body: bytes, *, snapshot_id: str, stream: str) -> Manifest:
    """Read a stored manifest; `UnusableSnapshotError` with the reason if anything in it is wrong."""
    try:
        document = _of(dict, json.loads(_decompress(body)), "the manifest")
        _require_format(document.get("format"), snapshot_id)
        return _manifest(document, snapshot_id, stream)
    except UnusableSnapshotError:
        raise
    except (ValueError, KeyError, PermanentError, RecursionError, MemoryError, zlib.error) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        reason = reason or "there is not enough memory for it"
        raise _unreadable(snapshot_id, reason) from error


def _unreadable(snapshot_id: str, reason: str) -> UnusableSnapshotError:
    return UnusableSnapshotError(
        f"manifest {snapshot_id} cannot be read: {reason}",
        hint="use another snapshot: this one is damaged",
    )


def _decompress(body: bytes) -> bytes:
    reader = zlib.decompressobj(_GZIP)
    text = reader.decompress(body, MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        _refuse(f"it has more than {MOST_BYTES} bytes once decompressed")
    if not reader.eof or reader.unused_data:
        _refuse("it is cut short, or something follows it")
    return text


def _require_format(version: object, snapshot_id: str) -> None:
    if version != FORMAT:
        raise UnusableSnapshotError(
            f"manifest {snapshot_id} cannot be read: it has format {version}, this version of Holdfast reads {FORMAT}",
            hint="use the version of Holdfast that wrote it, or a newer one",
        )


def _manifest(document: dict[str, Any], snapshot_id: str, stream: str) -> Manifest:
    for name, value in (("id", snapshot_id), ("stream", stream)):
        if document[name] != value:
            _refuse(f"its {name} is {document[name]!r}, not {value!r}")
    packs = _packs(document["packs"])
    files = _files(_of(dict, document["files"], "files"), packs)
    _require_tree([file.path for file in files])
    return Manifest(
        stream=stream,
        name=SnapshotName.parse(snapshot_id),
        parent=_parent(document["parent"]),
        created_at=_time(document["created_at"]),
        spark_version=_of(str, document["spark_version"], "spark_version"),
        conf={
            _of(str, name, "conf"): _of(str, value, f"conf {name}")
            for name, value in _of(dict, document["conf"], "conf").items()
        },
        packs=packs,
        files=files,
        owner=_of(str, document.get("owner", ""), "owner"),
    )


def _packs(entries: object) -> dict[str, int]:
    packs: dict[str, int] = {}
    for entry in _of(list, entries, "packs"):
        name, size = _of(list, entry, "a pack")
        if SAFE_NAME.fullmatch(_of(str, name, "the name of a pack")) is None or name in packs:
            _refuse(f"the name of the pack {name!r} is not plain, or not the only one")
        packs[name] = _count(size, f"the length of pack {name}")
    return packs


def _files(columns: dict[str, Any], packs: dict[str, int]) -> tuple[PackedFile, ...]:
    names = ("path", "pack", "offset", "size")
    rows = list(zip(*(_of(list, columns[name], name) for name in names), strict=True))
    digests = _digests(columns["sha256"], len(rows))
    order = list(packs)
    return tuple(
        _file(row, order, packs, digest) for row, digest in zip(rows, digests, strict=True)
    )


def _file(
    row: Sequence[Any], order: Sequence[str], packs: dict[str, int], digest: bytes
) -> PackedFile:
    path = _plain(_of(str, row[0], "a path"))
    number, offset, size = (
        _count(value, f"{name} of {path}")
        for name, value in zip(("pack", "offset", "size"), row[1:], strict=True)
    )
    if number >= len(order) or offset + size > packs[order[number]]:
        _refuse(f"{path!r} is beyond the end of its pack")
    return PackedFile(path, order[number], offset, size, digest)


def _digests(text: object, count: int) -> list[bytes]:
    try:
        joined = base64.b64decode(_of(str, text, "sha256"), validate=True)
    except binascii.Error as error:
        _refuse(f"its digests are not base64: {error}")
    if len(joined) != _DIGEST_BYTES * count:
        _refuse("it has not one digest for each file")
    return [joined[at : at + _DIGEST_BYTES] for at in range(0, len(joined), _DIGEST_BYTES)]


def _plain(path: str) -> str:
    """A relative path that any file system can hold and that stays inside the checkpoint."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        _refuse(f"the path {path!r} leads out of the checkpoint")
    if "\0" in path or "" in parts or "." in parts:
        _refuse(f"the path {path!r} is not plain")
    encoded = path.encode()
    if len(encoded) > _MOST_PATH_BYTES or any(
        len(part) > _MOST_NAME_BYTES for part in encoded.split(b"/")
    ):
        _refuse(f"the path {path[:40]!r}… is too long")
    return path


def _require_tree(paths: Sequence[str]) -> None:
    """Refuse files that cannot be beside each other in one folder, or that make no checkpoint."""
    files = set(paths)
    if len(files) != len(paths):
        _refuse("two files have the same path")
    if "metadata" not in files:
        _refuse("it has no file metadata, so it is not a checkpoint")
    for path in paths:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            if (folder := "/".join(parts[:depth])) in files:
                _refuse(f"{folder!r} is a file and a folder")


def _parent(value: object) -> str | None:
    return None if value is None else SnapshotName.parse(_of(str, value, "parent")).id


def _time(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        _refuse(f"created_at is {value!r}")
    return float(value)  # type: ignore[arg-type]


def _count(value: object, what: str) -> int:
    number: int = _of(int, value, what)
    if number < 0:
        _refuse(f"{what} is negative")
    return number


def _of(kind: type, value: object, what: str) -> Any:
    """The value, if it is of exactly this kind: JSON's true is no number."""
    if type(value) is not kind:
        _refuse(f"{what} is of the wrong kind")
    return value


def _refuse(reason: str) -> NoReturn:
    raise ValueError(reason)
