"""The stages of a request, and the verdicts on it."""

STAGES = ("requested", "started", "answered")

CONFORMING, LATE, MISSING = VERDICTS = ("conforming", "late", "missing")
