"""The searches: what the operator does in each, and how many epochs, launches and faults it allows."""

from tests.model.state import Bound

SMALL = {
    "faults": Bound(epochs=2, launches=3, faults=1),
}
FULL = SMALL
