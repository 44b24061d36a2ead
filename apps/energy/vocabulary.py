"""The words of the challenge: what a reading is of, and what names a plug."""

WORK, LOAD = 0, 1
PLUG = ("house_id", "household_id", "plug_id")
IDS = 1 << 20
"""Ids of houses, households and plugs are below this …"""
LARGEST_VALUE = 1_000_000
"""… no load or work is above this, in W or kWh …"""
LAST_SECOND = (1 << 32) - 1
"""… and no timestamp after this, which is in 2106: milliseconds are distinguished from seconds."""
MILLIWATT_SECONDS_PER_WATT_HOUR = 3_600_000
