import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.vault.objects import manifest, manifest_reader
from holdfast.resources.vault.objects.manifest import (
    Manifest,
    PackedFile,
    SnapshotName,
    UnusableSnapshotError,
)
from holdfast.resources.vault.objects.manifest_reader import MOST_BYTES, decode
from tests.builders.vaults import a_stream, tree

A_MANIFEST = Manifest(
    stream="words",
    name=SnapshotName(41, 7, "words-a.1"),
    parent="000000000040-7-words-a.1",
    created_at=1000.5,
    spark_version="4.3.0",
    conf={"spark.sql.shuffle.partitions": "2"},
    packs={"p0": 30, "p1": 5},
    files=(
        PackedFile("commits/41", "p0", 0, 10, b"a" * 32),
        PackedFile("metadata", "p1", 0, 5, b"b" * 32),
    ),
)


def test_a_manifest_reads_back_as_it_was_written() -> None:
    assert decode(A_MANIFEST.encode(), snapshot_id=A_MANIFEST.id, stream="words") == A_MANIFEST


def test_a_name_reads_back_and_orders_by_epoch_then_token() -> None:
    name = SnapshotName(12, 3, "words-b")
    assert name.id == "000000000012-3-words-b"
    assert SnapshotName.parse(name.id) == name
    assert SnapshotName(9, 9, "a") < SnapshotName(10, 1, "a") < SnapshotName(10, 2, "a")


@pytest.mark.parametrize("replica", ["", "a/b", "../x", ".hidden"])
def test_a_replica_that_could_escape_its_folder_is_refused(replica: str) -> None:
    with pytest.raises(PermanentError):
        SnapshotName(1, 1, replica)


@pytest.mark.parametrize("body", [b"", b"nonsense", A_MANIFEST.encode()[:40]])
def test_what_cannot_be_read_is_an_unusable_snapshot(body: bytes) -> None:
    with pytest.raises(UnusableSnapshotError, match="cannot be read"):
        decode(body, snapshot_id="x", stream="words")


def test_a_newer_format_is_refused_by_name() -> None:
    document = json.loads(gzip.decompress(A_MANIFEST.encode())) | {"format": 99}
    with pytest.raises(UnusableSnapshotError, match="it has format 99"):
        decode(gzip.compress(json.dumps(document).encode()), snapshot_id="x", stream="words")


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "state/../../outside"])
def test_a_path_that_leads_out_of_the_checkpoint_is_refused(path: str) -> None:
    evil = replace(A_MANIFEST, files=(replace(A_MANIFEST.files[0], path=path),))
    with pytest.raises(UnusableSnapshotError, match="leads out"):
        decode(evil.encode(), snapshot_id=A_MANIFEST.id, stream="words")


def test_what_does_not_match_is_named() -> None:
    same = {"spark.sql.shuffle.partitions": "2"}
    assert A_MANIFEST.mismatches(spark_version="4.3.9", conf=same) == []
    newer = same | {"spark.sql.streaming.join.stateFormatVersion": "2"}  # not set then
    assert A_MANIFEST.mismatches(spark_version="4.3.9", conf=newer) == []
    differing = A_MANIFEST.mismatches(
        spark_version="4.4.0", conf={"spark.sql.shuffle.partitions": "8"}
    )
    assert [line.split(":")[0] for line in differing] == [
        "spark version",
        "spark.sql.shuffle.partitions",
    ]


def test_a_manifest_with_any_one_byte_changed_is_the_same_or_unusable() -> None:
    body = A_MANIFEST.encode()
    for place in range(len(body)):
        changed = bytearray(body)
        changed[place] ^= 0xFF
        try:
            assert decode(bytes(changed), snapshot_id=A_MANIFEST.id, stream="words") == A_MANIFEST
        except UnusableSnapshotError:
            continue


def put(*place: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    """Replace one value of a manifest."""

    def change(document: Any) -> None:
        for step in place[:-1]:
            document = document[step]
        document[place[-1]] = value

    return change


def path(text: str, column: int = 0) -> Callable[[dict[str, Any]], None]:
    return put("files", "path", column, value=text)


def without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.pop(name) and None


FORGED: dict[str, Callable[[dict[str, Any]], None]] = {
    "another stream": put("stream", value="clicks"),
    "another id": put("id", value="000000000003-1-r2"),
    "no id": without("id"),
    "no files": put("files", value={n: [] for n in ("path", "pack", "offset", "size")} | {"sha256": ""}),
    "files that are no columns": put("files", value=[]),
    "no metadata": lambda document: path("other", document["files"]["path"].index("metadata"))(document),
    "two files of one path": lambda document: path(document["files"]["path"][1])(document),
    "a file that is also a folder": path("metadata/inside"),
    "an empty path": path(""),
    "a dot": path("."),
    "a dot inside": path("state/./0"),
    "an empty part": path("state//0"),
    "NUL": path("state/\0"),
    "half a surrogate": path("state/\ud800"),
    "a long name": path("n" * 5000),
    "a long path": path("/".join(["folder"] * 600)),
    "the parent folder": path("../outside"),
    "an absolute path": path("/etc/passwd"),
    "a path that is no text": put("files", "path", 0, value=7),
    "an offset that is no number": put("files", "offset", 0, value="0"),
    "an offset that is a fraction": put("files", "offset", 0, value=0.5),
    "a negative offset": put("files", "offset", 0, value=-1),
    "a size that is null": put("files", "size", 0, value=None),
    "a size that is true": put("files", "size", 0, value=True),
    "a negative size": put("files", "size", 0, value=-5),
    "a size beyond the pack": put("files", "size", 0, value=1 << 60),
    "a pack that is not there": put("files", "pack", 0, value=99),
    "a pack counted from the end": put("files", "pack", 0, value=-1),
    "a column that is too short": lambda document: document["files"]["size"].pop() and None,
    "digests that are too short": put("files", "sha256", value="aaaa"),
    "digests that are not base64": put("files", "sha256", value="?"),
    "a negative length of a pack": put("packs", 0, 1, value=-1),
    "a pack elsewhere": put("packs", 0, 0, value="../../other/packs/p"),
    "packs that are no list": put("packs", value={}),
    "a pack twice": lambda document: document["packs"].append(document["packs"][0]),
    "a time that is text": put("created_at", value="now"),
    "a time that is not finite": put("created_at", value=float("nan")),
    "conf that is no mapping": put("conf", value=["a"]),
    "conf with numbers": put("conf", value={"a": 1}),
    "a version that is null": put("spark_version", value=None),
    "a parent that is no id": put("parent", value="../x"),
}  # fmt: skip


def forge(body: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    document = json.loads(gzip.decompress(body))
    change(document)
    return gzip.compress(json.dumps(document).encode())


def bomb() -> bytes:
    return gzip.compress(b" " * (MOST_BYTES + 1), compresslevel=1)


@pytest.mark.parametrize("kind", [*FORGED, "a list", "deep", "bomb", "followed by more"])
def test_whatever_is_wrong_with_a_manifest_an_older_snapshot_is_restored(
    tmp_path: Path, kind: str
) -> None:
    stream = a_stream(tmp_path)
    older, newest = (stream.ship().manifest for _ in range(2))
    key = stream.vault.manifest_key(newest.id)
    body = stream.store.get(key)
    bodies = {
        "a list": lambda: gzip.compress(b"[]"),
        "deep": lambda: gzip.compress(b"[" * 200_000),
        "bomb": bomb,
        "followed by more": lambda: body + b"more",
    }
    stream.store.put(key, bodies[kind]() if kind in bodies else forge(body, FORGED[kind]))
    restored = stream.vault.restore_newest(tmp_path / "back")
    assert restored is not None
    assert restored.manifest.id == older.id
    assert "cannot be read" in restored.refused[0].reason
    assert tree(tmp_path / "back") == stream.contents[older.id]


def test_a_manifest_that_is_too_large_to_fetch_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = a_stream(tmp_path)
    snapshot = stream.ship().manifest
    monkeypatch.setattr(manifest_reader, "MOST_BYTES", 10)
    with pytest.raises(UnusableSnapshotError, match="more than 10 bytes"):
        stream.vault.manifest(snapshot.id)


def test_a_manifest_that_no_reader_would_accept_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(manifest, "MOST_BYTES", len(gzip.decompress(A_MANIFEST.encode())))
    A_MANIFEST.encode()
    longer = replace(A_MANIFEST, owner="x")
    with pytest.raises(PermanentError, match="words has 2 files: its manifest would be too large"):
        longer.encode()


@pytest.mark.parametrize("text", ["b'[' + b'[],' * 10_000_000 + b'0]'", "b'[' * (200 << 20)"])
def test_a_manifest_that_takes_too_much_memory_is_unusable(text: str) -> None:
    """In a process with 400 MB, as a driver on a full host."""
    forged = f"""
import gzip, resource
from holdfast.resources.vault.objects.manifest import UnusableSnapshotError
from holdfast.resources.vault.objects.manifest_reader import decode
body = gzip.compress({text}, compresslevel=1)
resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20))
try:
    decode(body, snapshot_id="x", stream="words")
except UnusableSnapshotError as error:
    print(error)
"""
    command = [sys.executable, "-c", forged]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert "manifest x cannot be read" in result.stdout, result.stderr


def test_a_file_that_the_disk_does_not_accept_makes_the_snapshot_unusable(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    stream.ship()
    newest = stream.ship().manifest
    folder = "/".join(["f" * 200] * 30)  # a manifest in memory, as if its path had been accepted
    first = replace(newest.files[0], path=f"{folder}/x")
    with pytest.raises(UnusableSnapshotError, match="cannot be restored"):
        stream.vault.restore(replace(newest, files=(first,)), tmp_path / "back")
