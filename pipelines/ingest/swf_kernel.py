"""The compiled part of the SWF reader: bytes to integers, and the first error's place.

One pass over the text. Every one of the 18 fields is checked to be a number; those the jobs table has are kept, as int64.
"""

import numpy as np
from numba import njit

FIELDS = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
"""Names of the 18 fields of the Standard Workload Format (Chapin et al. 1999), in order."""

NOT_READ, TIME, WHOLE, AMOUNT = 0, 1, 2, 3
KINDS = np.array([WHOLE, TIME, TIME, TIME, WHOLE, NOT_READ, NOT_READ, WHOLE, TIME, AMOUNT] + [WHOLE] * 7 + [TIME], np.int64)
"""Kind of each field: checked only, a time (rounded to the second), a count or identity (whole or an error), or an amount of memory
(rounded, and ``LARGE`` if too large)."""
LARGE = 10**18
"""Value of an amount too large to be read: beyond all limits."""

SHORTEST_LINE = 36
"""Min bytes of a line of 18 fields, its end included."""

OK, NOT_A_NUMBER, TOO_FEW, NOT_WHOLE, TOO_LARGE = 0, 1, 2, 3, 4
FRACTIONAL, NEGATIVE = 0, 1
"""Rows of the tally."""

_DIGITS = 18  # as many always fit in an int64
_LARGEST = 1e18
_EXACT = 2.0**53  # numbers with an exponent are read as float64, which holds whole numbers below


@njit(cache=True, nogil=True)
def _number(data, at, kind):
    """Parse the number at ``at``: (offset behind it, value, code, was it rounded?).

    Halves round away from zero.
    """
    size = data.size
    negative = data[at] == 45
    if negative or data[at] == 43:
        at += 1
    first = at
    whole = np.int64(0)
    fractional = False
    while at < size:
        digit = np.int64(data[at]) - 48
        if digit < 0 or digit > 9:
            break
        whole = whole * 10 + digit
        at += 1
    digits = at - first
    large = False
    if digits > _DIGITS:
        while data[first] == 48 and first < at - 1:
            first += 1
        large = at - first > _DIGITS
    if at < size and (data[at] == 46 or data[at] == 69 or data[at] == 101):  # . E e
        fraction = 0.0
        scale = 1.0
        up = False
        if data[at] == 46:
            at += 1
            first = at
            while at < size:
                digit = np.int64(data[at]) - 48
                if digit < 0 or digit > 9:
                    break
                digits += 1
                if at == first and digit >= 5:
                    up = True
                if digit > 0:
                    fractional = True
                if scale < _LARGEST:
                    scale *= 10.0
                    fraction = fraction * 10.0 + digit
                at += 1
        if digits > 0 and at < size and (data[at] == 69 or data[at] == 101):
            at += 1
            down = at < size and data[at] == 45
            if at < size and (data[at] == 45 or data[at] == 43):
                at += 1
            exponent = np.int64(0)
            first = at
            while at < size:
                digit = np.int64(data[at]) - 48
                if digit < 0 or digit > 9:
                    break
                if exponent < 400:
                    exponent = exponent * 10 + digit
                at += 1
            if at == first:
                return at, whole, NOT_A_NUMBER, False
            number = whole + fraction / scale
            if number > 0:  # 0e999 is 0, and not 0 times infinity
                number *= 10.0 ** (-exponent if down else exponent)
            if number >= _EXACT:
                large = True
            if not large:
                whole = np.int64(np.floor(number + 0.5))
                fractional = bool(number != whole)
        elif up:
            whole += 1
    ended = at == size or data[at] == 32 or (data[at] >= 9 and data[at] <= 13)
    if digits == 0 or not ended:
        return at, whole, NOT_A_NUMBER, False
    if large and kind == AMOUNT:
        return at, -LARGE if negative else LARGE, OK, False
    if kind != NOT_READ and large:
        return at, whole, TOO_LARGE, False
    if kind == WHOLE and fractional:
        return at, whole, NOT_WHOLE, False
    return at, -whole if negative else whole, OK, fractional


@njit(cache=True, nogil=True)
def parse(data, begun, values, tally):
    """Parse a block of whole lines; ``begun`` tells whether there were jobs before it.

    data: uint8 [bytes]. Filled in: values int64 [18, 1 + bytes // SHORTEST_LINE] (rows of kind NOT_READ are left alone); tally int64
    [2, 18], how many values of a field were rounded, and how many were negative other than -1.

    Returns (jobs, offset of the first job's line, comment lines behind it, lines with extra columns, fewest and most extra columns on
    such a line, code, line, field, offset, end): code OK, or what is wrong in 1-based ``line`` at 0-based ``field``, whose text is
    ``data[offset:end]``.
    """
    size = data.size
    at = 0
    line = 1
    jobs = 0
    head = 0
    comments = 0
    extra_lines = 0
    fewest = 0
    most = 0
    while at < size:
        field = 0
        while True:
            while at < size and (data[at] == 32 or data[at] == 9 or data[at] == 11 or data[at] == 12):
                at += 1
            if at == size or data[at] == 10 or data[at] == 13:
                break
            if data[at] == 59:  # a comment, to the end of the line
                comments += field == 0 and (begun or jobs > 0)
                while at < size and data[at] != 10 and data[at] != 13:
                    at += 1
                break
            start = at
            if field < 18:
                # nearly every value is a plain integer between blanks, and reading those here saves a third of the time
                negative = data[at] == 45
                first = at + 1 if negative else at
                behind = first
                number = np.int64(0)
                while behind < size:
                    digit = np.int64(data[behind]) - 48
                    if digit < 0 or digit > 9:
                        break
                    number = number * 10 + digit
                    behind += 1
                code = OK
                rounded = False
                if 0 < behind - first <= _DIGITS and behind < size and (data[behind] == 32 or data[behind] == 10):
                    at = behind
                    if negative:
                        number = -number
                else:
                    at, number, code, rounded = _number(data, at, KINDS[field])
                if code != OK:
                    end = max(at, start + 1)
                    while end < size and data[end] != 32 and (data[end] < 9 or data[end] > 13):
                        end += 1
                    return jobs, head, comments, extra_lines, fewest, most, code, line, field, start, end
                if KINDS[field] != NOT_READ:
                    values[field, jobs] = number
                    if rounded:
                        tally[FRACTIONAL, field] += 1
                    if number < -1:
                        tally[NEGATIVE, field] += 1
            else:
                at += 1
                while at < size and data[at] > 32:
                    at += 1
            field += 1

        if field > 0:
            if field < 18:
                return jobs, head, comments, extra_lines, fewest, most, TOO_FEW, line, field, at, at
            if field > 18:
                extra_lines += 1
                most = max(most, field - 18)
                fewest = field - 18 if extra_lines == 1 else min(fewest, field - 18)
            jobs += 1
        elif jobs == 0 and not begun:
            head = at
        if at < size:
            at += 2 if data[at] == 13 and at + 1 < size and data[at + 1] == 10 else 1
            line += 1
    return jobs, head, comments, extra_lines, fewest, most, OK, line, 0, 0, 0
