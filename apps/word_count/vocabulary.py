"""The words of the demo: a key stands for the word at its place, round and round."""

VOCABULARY = (
    "anchor", "ballast", "beacon", "bollard", "bow", "brine", "buoy", "cable", "capstan", "chart",
    "current", "deck", "ebb", "fathom", "fender", "gale", "harbour", "helm", "hull", "jetty",
    "keel", "kelp", "knot", "lagoon", "lantern", "mast", "mooring", "oar", "pier", "quay",
    "reef", "rudder", "sail", "shoal", "stern", "surf", "swell", "tide", "wake", "wharf",
)  # fmt: skip
