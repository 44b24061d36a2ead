import gzip
import json
from dataclasses import replace

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.vault.manifest import (
    Manifest,
    PackedFile,
    SnapshotName,
    UnusableSnapshotError,
    decode,
)

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
    assert decode(A_MANIFEST.encode(), snapshot_id=A_MANIFEST.id) == A_MANIFEST


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
        decode(body, snapshot_id="x")


def test_a_newer_format_is_refused_by_name() -> None:
    document = json.loads(gzip.decompress(A_MANIFEST.encode())) | {"format": 99}
    with pytest.raises(UnusableSnapshotError, match="it has format 99"):
        decode(gzip.compress(json.dumps(document).encode()), snapshot_id="x")


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "state/../../outside"])
def test_a_path_that_leads_out_of_the_checkpoint_is_refused(path: str) -> None:
    evil = replace(A_MANIFEST, files=(replace(A_MANIFEST.files[0], path=path),))
    with pytest.raises(UnusableSnapshotError, match="leads out"):
        decode(evil.encode(), snapshot_id="x")


def test_what_does_not_match_is_named() -> None:
    same = {"spark.sql.shuffle.partitions": "2"}
    assert A_MANIFEST.mismatches(spark_version="4.3.9", conf=same) == []
    newer = same | {"spark.sql.streaming.join.stateFormatVersion": "2"}  # nobody asked for it then
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
            assert decode(bytes(changed), snapshot_id=A_MANIFEST.id) == A_MANIFEST
        except UnusableSnapshotError:
            continue
