"""The files of a checkpoint that name the folder they lie in.

Spark writes absolute paths into the description of `transformWithState` operators; without a change a
restored query looks for its schema in the folder of the replica that died.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from resources.vault.manifest import PackedFile

_SCHEMA_PATH = re.compile(r'"[^"]*/(state/\d+/_stateSchema/)')
_NAMES_ITS_FOLDER = re.compile(r"state/\d+/_metadata/v2/\d+")


def names_its_folder(file: PackedFile) -> bool:
    """Whether a file is rewritten on restore, and so is not as it was packed."""
    return _NAMES_ITS_FOLDER.fullmatch(file.path) is not None


def relocate(root: Path, files: Iterable[PackedFile], into: Path) -> None:
    """Point what names its own folder to the one that `root` is about to become."""
    home = json.dumps("file:" + str(into.absolute()))[1:-1]
    for file in files:
        if names_its_folder(file):
            target = root / file.path
            text = _SCHEMA_PATH.sub(lambda match: f'"{home}/{match[1]}', target.read_text())
            target.write_text(text)
