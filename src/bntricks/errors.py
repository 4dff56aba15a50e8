"""The two ways a command can fail on purpose. Neither ever shows a traceback."""


class UserError(Exception):
    """A mistake that the user can mend: the message says what was wrong, what is allowed, and
    what to do next. The command line prints it and exits with 2."""


class RunError(Exception):
    """A failure while running, such as a loss that is not finite. Exit code 1."""


class HeldError(Exception):
    """Another process holds this run. Exit code 3."""
