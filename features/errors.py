"""The one exception for bad input."""


class InputError(ValueError):
    """Bad input, told in one line: file, line and what is wrong, as far as known.

    The command line prints the message alone and exits with 2; any other exception that escapes is a defect of Queuecast.
    """
