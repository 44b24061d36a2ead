"""The challenge's grid over New York: 150 km by 150 km, cell 1.1 in the north-west.

Degrees are counted in whole billionths, so that a place on an edge is in the same cell everywhere.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

IntArray = npt.NDArray[np.int64]

BILLION = 1_000_000_000
EAST_500 = 5_986_000  # 500 m to the east, in billionths of a degree
SOUTH_500 = 4_491_556
WEST_EDGE = -74_913_585_000 - EAST_500 // 2  # the seeds give the middle of the first 500 m cell
NORTH_EDGE = 41_474_937_000 + SOUTH_500 // 2

ROUTE_SIDE = 300  # cells of 500 m
AREA_SIDE = 600  # cells of 250 m
OUTSIDE = -1


def locate_cells(
    longitude: "pd.Series[float]", latitude: "pd.Series[float]", side: int
) -> IntArray:
    """The number of the cell that each place is in, counted south, then east; or `OUTSIDE`."""
    east = (_billionths(longitude) - WEST_EDGE) // (EAST_500 * ROUTE_SIDE // side)
    south = (NORTH_EDGE - _billionths(latitude)) // (SOUTH_500 * ROUTE_SIDE // side)
    inside = (east >= 0) & (east < side) & (south >= 0) & (south < side)
    return np.where(inside, east * side + south, OUTSIDE).astype(np.int64)


def name_cells(numbers: IntArray, side: int) -> npt.NDArray[np.object_]:
    """Cells as the challenge writes them, `east.south` from 1.1; nothing for `OUTSIDE`."""
    cells, places = np.unique(numbers, return_inverse=True)
    written = [
        None if number == OUTSIDE else f"{number // side + 1}.{number % side + 1}"
        for number in cells.tolist()
    ]
    return np.array(written, dtype=object)[places.reshape(numbers.shape)]


def _billionths(degrees: "pd.Series[float]") -> npt.NDArray[np.float64]:
    return np.rint(degrees.to_numpy(dtype=np.float64) * BILLION)
