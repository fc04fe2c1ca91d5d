"""The one exception that is meant for the person at the keyboard."""

from collections.abc import Iterable


class UserError(ValueError):
    """An error the user can fix; its message is one line that says what is wrong and what to do.

    >>> import pdevae
    >>> pdevae.square(nodes=9, max_edge=0.1)
    Traceback (most recent call last):
    pdevae.errors.UserError: set the size of the mesh by one of nodes=… and max_edge=…
    """

    def __init__(self, message: str):
        super().__init__(" ".join(message.split()))


def shape_text(shape: Iterable[int | None]) -> str:
    """A shape as a person reads it; ? is an axis that is not known before the graph runs."""
    return str(list(shape)).replace("None", "?")
