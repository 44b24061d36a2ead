"""The asset keys of streams and reports."""

import dagster as dg


def stream_key(stream: str) -> dg.AssetKey:
    """The running stream: it advances with its committed epochs."""
    return dg.AssetKey(["streams", stream])


def snapshots_key(stream: str) -> dg.AssetKey:
    """The stream's snapshots in the object store."""
    return dg.AssetKey(["snapshots", stream])


def output_key(stream: str) -> dg.AssetKey:
    return dg.AssetKey(["outputs", stream])


def tiers_key(stream: str) -> dg.AssetKey:
    """The tier that the stream should have, and the tier that its replicas cover now."""
    return dg.AssetKey(["tiers", stream])


def report_key(report: str) -> dg.AssetKey:
    """A report about all streams of the project."""
    return dg.AssetKey(["reports", report])
