"""Projects in a folder, as a user would write them."""

from pathlib import Path

import yaml

from holdfast.configs.declarations.stream import StreamDeclaration

STREAM: dict[str, object] = {
    "name": "clicks",
    "app": "json:loads",
    "source": {
        "kind": "rate",
        "seed": 1,
        "keys": 10,
        "profile": {"kind": "constant", "rows_per_second": 100},
    },
    "objective": {"recovery_time": "10s"},
    "tier": "passive_replication",
}


def a_declaration(**changes: object) -> StreamDeclaration:
    """A valid declaration with some of its fields replaced."""
    return StreamDeclaration.model_validate(STREAM | changes)


def a_project(root: Path, **files: str) -> Path:
    """A folder with stream files, given as `file_name=text`; `holdfast` is the deployment."""
    folder = root / "configs" / "streams"
    folder.mkdir(parents=True)
    for name, text in files.items():
        path = root / "configs" / "holdfast.yaml" if name == "holdfast" else folder / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
    return root


def stream_yaml(**changes: object) -> str:
    """The text of a valid stream file with some of its fields replaced."""
    return yaml.safe_dump(STREAM | changes, sort_keys=False)
