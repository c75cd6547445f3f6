"""The one exception for input a user can mend."""


class InputError(ValueError):
    """Bad input, told in one line: file, line and what is wrong, as far as they are known.

    The command line prints the message alone and exits with 2; anything else that escapes is a defect of ours.
    """
