"""The first schema: the root of the scripts to come, with nothing to change.

A new control store is made from `schema.py` as it is, not by the scripts. So a later script (0002,
`down_revision = "0001"`) only has to describe what changes in the stores of the release before it.
"""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Change nothing."""
