"""One number for a plug: its house, household and plug ids side by side, so that columns stay small."""

from typing import Any

import numpy as np
import pandas as pd

from apps.energy.vocabulary import IDS, PLUG


def packed(rows: pd.DataFrame) -> Any:
    """The plug of each row; plugs of one house are neighbours in their order."""
    house, household, plug = (rows[column].to_numpy(dtype=np.int64) for column in PLUG)
    return (house * IDS + household) * IDS + plug


def house_of(plugs: Any) -> Any:
    """The house that each plug is in."""
    return plugs // (IDS * IDS)


def unpacked(plugs: Any) -> dict[str, Any]:
    """The three columns that name a plug."""
    ids = (house_of(plugs), plugs // IDS % IDS, plugs % IDS)
    return {column: one.astype(np.int32) for column, one in zip(PLUG, ids, strict=True)}
