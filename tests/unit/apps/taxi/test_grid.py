"""The challenge's grid: where its cells are, and what they are called."""

import numpy as np
import pandas as pd
import pytest

from holdfast.apps.taxi.grid import AREA_SIDE, OUTSIDE, ROUTE_SIDE, locate_cells, name_cells


def name_of(longitude: float, latitude: float, side: int) -> str | None:
    cells = locate_cells(pd.Series([longitude]), pd.Series([latitude]), side)
    [name] = name_cells(cells, side)
    return name


@pytest.mark.parametrize(
    ("longitude", "latitude", "of_500_metres", "of_250_metres"),
    [
        (-74.913585, 41.474937, "1.1", "2.2"),
        (-74.916578, 41.477182, "1.1", "1.1"),
        (-74.913585 + 0.005986, 41.474937, "2.1", "4.2"),
        (-74.913585, 41.474937 - 0.004491556, "1.2", "2.4"),
        (-73.9857, 40.7580, "156.161", "312.321"),
        (-74.913585 + 299 * 0.005986, 41.474937 - 299 * 0.004491556, "300.300", "600.600"),
        (-74.916579, 41.474937, None, None),
        (-74.913585 + 300 * 0.005986, 41.474937, None, None),
        (-74.913585, 41.474937 - 300 * 0.004491556, None, None),
        (0.0, 0.0, None, None),
        (np.nan, np.nan, None, None),
    ],
)
def test_a_place_is_in_one_cell_or_in_none(
    longitude: float, latitude: float, of_500_metres: str | None, of_250_metres: str | None
) -> None:
    assert name_of(longitude, latitude, ROUTE_SIDE) == of_500_metres
    assert name_of(longitude, latitude, AREA_SIDE) == of_250_metres


def test_a_place_on_an_edge_is_in_the_cell_further_east_wherever_the_edge_is() -> None:
    edges = np.arange(1, ROUTE_SIDE)
    on_edges = pd.Series((-74_916_578 + 5_986 * edges) / 1e6)
    cells = locate_cells(on_edges, pd.Series(41.0, index=on_edges.index), ROUTE_SIDE)
    assert (cells // ROUTE_SIDE == edges).all()


def test_names_keep_the_shape_and_say_nothing_of_places_outside() -> None:
    numbers = np.array([[0, OUTSIDE], [ROUTE_SIDE, ROUTE_SIDE**2 - 1]])
    assert name_cells(numbers, ROUTE_SIDE).tolist() == [["1.1", None], ["2.1", "300.300"]]
