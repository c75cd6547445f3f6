"""The compiled part of the LDMS reader: CSV lines to times, nodes, values and first error.

Numbers equal those of Python's ``float``. Nearly all take the exact short way (Clinger 1990: a mantissa below 2^53 and a power of
ten up to 22 are both exact, so one operation rounds once); the few others are left to the caller by place.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SKIP, TIME, USEC, NODE = -1, -2, -3, -4
"""Roles of columns other than metrics; a metric's role is its row in ``values``."""

OK, HEADER, HARD_FULL, NODES_FULL = 0, 1, 2, 3
"""Stop reasons that are not errors: all read, a line that may be a header, or a table that the caller has to grow."""
NOT_A_NUMBER, WRONG_FIELDS, NO_NODE, NO_TIME, NOT_FINITE = 4, 5, 6, 7, 8

LATEST_S = 1 << 33
"""Times are Unix seconds above 0 and below this (the year 2242): milliseconds are far above."""

_POWERS = 10.0 ** np.arange(23)
_EXACT = np.uint64(1 << 53)
_TENTH = np.uint64((1 << 64) // 10)
_FAILED, _HARD = 1, 2


@njit(cache=True, nogil=True)
def _number(data, at):
    """Parse the number at ``at``: (offset behind it, value, 0 or the error).

    ``nan`` is a value, an infinity is not.
    """
    negative = data[at] == 45
    if negative or data[at] == 43:
        at += 1
    mantissa = np.uint64(0)
    digits = 0
    hard = False
    while True:
        digit = np.int64(data[at]) - 48
        if digit < 0 or digit > 9:
            break
        if mantissa >= _TENTH:  # the next digit might not fit
            hard = True
        mantissa = mantissa * np.uint64(10) + np.uint64(digit)
        digits += 1
        at += 1
    exponent = np.int64(0)
    point = data[at] == 46
    if point:
        at += 1
        while True:
            digit = np.int64(data[at]) - 48
            if digit < 0 or digit > 9:
                break
            if mantissa >= _TENTH:
                hard = True
            mantissa = mantissa * np.uint64(10) + np.uint64(digit)
            digits += 1
            exponent -= 1
            at += 1
    if digits == 0:
        if not point and data[at] | 32 == 110 and data[at + 1] | 32 == 97 and data[at + 2] | 32 == 110:
            return at + 3, np.nan, OK
        if not point and data[at] | 32 == 105 and data[at + 1] | 32 == 110 and data[at + 2] | 32 == 102:
            return at + 3, np.nan, NOT_FINITE
        return at, np.nan, _FAILED
    if data[at] | 32 == 101:
        at += 1
        down = data[at] == 45
        if down or data[at] == 43:
            at += 1
        stated = np.int64(0)
        first = at
        while True:
            digit = np.int64(data[at]) - 48
            if digit < 0 or digit > 9:
                break
            if stated < 10_000:
                stated = stated * 10 + digit
            at += 1
        if at == first:
            return at, np.nan, _FAILED
        exponent += -stated if down else stated
    value = float(mantissa)
    if hard or (exponent != 0 and (mantissa > _EXACT or exponent < -22 or exponent > 22)):
        return at, np.nan, _HARD
    if exponent < 0:
        value /= _POWERS[-exponent]
    elif exponent > 0:
        value *= _POWERS[exponent]
    return at, -value if negative else value, OK


@njit(cache=True, nogil=True)
def _time(data, at):
    """Parse seconds with decimals to (offset behind it, microseconds, were there decimals?).

    At most six decimals are used; a seventh rounds.
    """
    whole = np.int64(0)
    first = at
    while data[at] >= 48 and data[at] <= 57:
        if whole < LATEST_S:
            whole = whole * 10 + np.int64(data[at]) - 48
        at += 1
    if at == first or whole >= LATEST_S:
        return first, np.int64(-1), False
    micro = np.int64(0)
    decimals = 0
    if data[at] == 46:
        at += 1
        while data[at] >= 48 and data[at] <= 57:
            digit = np.int64(data[at]) - 48
            if decimals < 6:
                micro = micro * 10 + digit
            elif decimals == 6 and digit >= 5:
                micro += 1
            decimals += 1
            at += 1
        for _ in range(decimals, 6):
            micro *= 10
    return at, whole * 1_000_000 + micro, decimals > 0


@njit(cache=True, nogil=True)
def find_node(data, begin, end, slots, hashes, starts, pool, counts):
    """Return the code of the name ``data[begin:end]``, by order of appearance; -1 if full."""
    hashed = np.uint64(14695981039346656037)  # FNV-1a
    for at in range(begin, end):
        hashed = (hashed ^ np.uint64(data[at])) * np.uint64(1099511628211)
    mask = np.uint64(slots.size - 1)
    slot = (hashed ^ (hashed >> np.uint64(29))) & mask
    while slots[slot] >= 0:
        code = slots[slot]
        if hashes[code] == hashed and starts[code + 1] - starts[code] == end - begin:
            same = True
            for place in range(end - begin):
                if pool[starts[code] + place] != data[begin + place]:
                    same = False
                    break
            if same:
                return np.int64(code)
        slot = (slot + np.uint64(1)) & mask
    code = counts[0]
    if 2 * (code + 1) > slots.size or code + 1 >= starts.size or starts[code] + end - begin > pool.size:
        return np.int64(-1)
    for place in range(end - begin):
        pool[starts[code] + place] = data[begin + place]
    starts[code + 1] = starts[code] + end - begin
    hashes[code] = hashed
    slots[slot] = code
    counts[0] = code + 1
    return np.int64(code)


@njit(cache=True, nogil=True)
def _behind(data, at):
    """Return the offset of the comma or line end behind the field at ``at``.

    Commas between quotes are text.
    """
    if data[at] == 34:
        at += 1
        while data[at] != 34 and data[at] != 10:
            at += 1
    while data[at] != 44 and data[at] != 10:
        at += 1
    return at


@njit(cache=True, nogil=True)
def parse(data, at, roles, text_first, row, time_us, node, values, latest_us, hard, tally, slots, hashes, starts, pool, counts):
    """Parse the lines of ``data`` from offset ``at``; the last byte must be a line end.

    data uint8 [bytes]; roles int64 [fields]; text_first: does a row begin with text? Filled from ``row`` on: time_us int64 [rows], node
    int64 [rows] codes of :func:`find_node`, values float64 [metrics, rows] (NaN where there is none). ``latest_us`` int64 [nodes] is the
    latest time of each node so far. ``hard`` int64 [4, n] takes begin, end, metric and row of numbers left to the caller; ``tally`` is
    [nulls, late rows, hard numbers] and counts on. The other five are the table of node names.

    Returns (rows, offset, lines read, code, field, begin, end): what stopped it, for an error in 0-based ``field``, whose text is
    ``data[begin:end]`` (for WRONG_FIELDS: ``field`` is the number of fields). ``offset`` is the start of the line that stopped it.
    """
    fields = roles.size
    lines = 0
    while at < data.size:
        line = at
        while data[at] == 32 or data[at] == 9 or data[at] == 13:
            at += 1
        if data[at] == 10:
            at += 1
            lines += 1
            continue
        letter = (data[at] | 32 >= 97 and data[at] | 32 <= 122) or data[at] >= 128
        if data[at] == 35 or (letter and not text_first):
            return row, line, lines, HEADER, 0, line, line
        stamp = np.int64(-1)
        micro = np.int64(0)
        decimals = False
        code = np.int64(-1)
        nulls = 0
        hards = tally[2]
        field = 0
        while True:
            while data[at] == 32 or data[at] == 9 or data[at] == 13:
                at += 1
            begin = at
            if field >= fields:
                pass
            elif roles[field] >= 0:
                metric = roles[field]
                if data[at] == 44 or data[at] == 10:
                    values[metric, row] = np.nan
                    nulls += 1
                else:
                    at, value, wrong = _number(data, at)
                    behind = at
                    while data[at] == 32 or data[at] == 9 or data[at] == 13:
                        at += 1
                    if wrong == _FAILED or (data[at] != 44 and data[at] != 10):
                        return row, line, lines, NOT_A_NUMBER, field, begin, _behind(data, begin)
                    if wrong == NOT_FINITE:
                        return row, line, lines, NOT_FINITE, field, begin, behind
                    if wrong == _HARD:
                        if hards >= hard.shape[1]:
                            return row, line, lines, HARD_FULL, field, begin, behind
                        hard[0, hards] = begin
                        hard[1, hards] = behind
                        hard[2, hards] = metric
                        hard[3, hards] = row
                        hards += 1
                    elif np.isnan(value):
                        nulls += 1
                    values[metric, row] = value
            elif roles[field] == TIME:
                at, stamp, decimals = _time(data, at)
                while data[at] == 32 or data[at] == 9 or data[at] == 13:
                    at += 1
                if stamp <= 0 or (data[at] != 44 and data[at] != 10):
                    return row, line, lines, NO_TIME, field, begin, _behind(data, begin)
            elif roles[field] == USEC:
                while data[at] >= 48 and data[at] <= 57 and micro < 1_000_000:
                    micro = micro * 10 + np.int64(data[at]) - 48
                    at += 1
                while data[at] == 32 or data[at] == 9 or data[at] == 13:
                    at += 1
                if micro >= 1_000_000 or (data[at] != 44 and data[at] != 10):
                    return row, line, lines, NOT_A_NUMBER, field, begin, _behind(data, begin)
            elif roles[field] == NODE:
                end = _behind(data, at)
                behind = end
                while end > begin and (data[end - 1] == 32 or data[end - 1] == 9 or data[end - 1] == 13):
                    end -= 1
                if end > begin + 1 and data[begin] == 34 and data[end - 1] == 34:
                    begin += 1
                    end -= 1
                for place in range(begin, end):
                    if data[place] <= 32 or data[place] >= 127 or data[place] == 34:
                        return row, line, lines, NO_NODE, field, begin, end
                if end == begin:
                    return row, line, lines, NO_NODE, field, begin, end
                code = find_node(data, begin, end, slots, hashes, starts, pool, counts)
                if code < 0:
                    return row, line, lines, NODES_FULL, field, begin, end
                at = behind
            at = _behind(data, at)
            field += 1
            if data[at] == 10:
                break
            at += 1
        if field != fields:
            return row, line, lines, WRONG_FIELDS, field, line, at
        if not decimals:
            stamp += micro
        time_us[row] = stamp
        node[row] = code
        tally[0] += nulls
        tally[1] += stamp < latest_us[code]
        tally[2] = hards
        latest_us[code] = max(stamp, latest_us[code])
        row += 1
        at += 1
        lines += 1
    return row, at, lines, OK, 0, at, at
