"""How to reach a bucket: a plain value, so that it costs nothing to import."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Connection:
    """Where the bucket is and how to sign; without keys, boto3's own chain of credentials is used."""

    bucket: str
    endpoint_url: str | None = None
    prefix: str = ""
    region: str = "us-east-1"
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)

    @property
    def place(self) -> str:
        """The endpoint and bucket, for messages."""
        return f"{self.endpoint_url or 'AWS ' + self.region}, bucket {self.bucket}"
