"""Holds Spark streams to a recovery objective at the least cost."""
