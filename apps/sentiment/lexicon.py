"""The words that carry a mood, with their weights, and the keywords to follow by default."""

KEYWORDS = ("cloud", "election", "energy", "football", "phone", "space", "taxi", "weather")

WEIGHTS = {
    "awesome": 3, "amazing": 3, "brilliant": 3, "love": 3, "great": 2, "happy": 2, "win": 2,
    "thanks": 2, "good": 1, "like": 1, "nice": 1, "cool": 1, "better": 1, "hope": 1,
    "late": -1, "slow": -1, "sorry": -1, "worse": -1, "doubt": -1, "bad": -2, "sad": -2,
    "fail": -2, "broken": -2, "angry": -2, "awful": -3, "hate": -3, "terrible": -3, "worst": -3,
}  # fmt: skip
