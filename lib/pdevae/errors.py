"""The one exception that is meant for the person at the keyboard."""


class UserError(ValueError):
    """Something the user can mend; its message is one line that says what is wrong and what to do."""

    def __init__(self, message: str):
        super().__init__(" ".join(message.split()))
