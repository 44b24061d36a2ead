"""One number for a plug: its house, household and plug ids side by side, so that columns stay small."""

from typing import Any

import numpy as np
import pandas as pd

from holdfast.apps.energy.vocabulary import IDS, PLUG


def pack_plugs(rows: pd.DataFrame) -> Any:
    """The plug of each row; plugs of one house are neighbours in their order."""
    house, household, plug = (rows[column].to_numpy(dtype=np.int64) for column in PLUG)
    return (house * IDS + household) * IDS + plug


def extract_house(plugs: Any) -> Any:
    """The house that each plug is in."""
    return plugs // (IDS * IDS)


def unpack_plugs(plugs: Any) -> dict[str, Any]:
    """The three columns that name a plug."""
    ids = (extract_house(plugs), plugs // IDS % IDS, plugs % IDS)
    return {column: values.astype(np.int32) for column, values in zip(PLUG, ids, strict=True)}
