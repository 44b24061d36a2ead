"""The words of the challenge: what a reading is of, and what names a plug."""

WORK, LOAD = 0, 1
PLUG = ("house_id", "household_id", "plug_id")
IDS = 1 << 20
"""Ids of houses, households and plugs are below this."""
MILLIWATT_SECONDS_PER_WATT_HOUR = 3_600_000
