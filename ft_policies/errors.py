"""Errors answer one question: is it worth trying again?"""


class HoldfastError(Exception):
    """Any error that Holdfast reports; `hint` is what the operator can do about it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class TransientError(HoldfastError):
    """It may succeed later without any change: try again."""


class PermanentError(HoldfastError):
    """It will fail again until its cause is removed."""
