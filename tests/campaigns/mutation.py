"""Mutations of files: bytes, lines, numbers, texts and packing, by a seeded generator."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable

NUMBERS = (
    b"0", b"-0", b"-1", b"-2", b"1", b"+7", b"0.5", b"1.5", b".5", b"5.", b"1e3", b"0e999", b"0e-999", b"1e999", b"1e-999", b"1e18", b"1e400",
    b"nan", b"-nan", b"inf", b"-inf", b"Infinity", b"NaT", b"None", b"true", b"0x10", b"1_000", b"1,000", b"1 000",
    b"2147483647", b"2147483648", b"4294967295", b"4294967296", b"9007199254740991", b"9007199254740992", b"9007199254740993",
    b"999999999999999999", b"1000000000000000000", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808",
    b"18446744073709551616", b"10000000000", b"10000000001", b"100000000", b"100000001", b"1000000000000", b"9000000000000000", b"1e15",
    b"9" * 19, b"9" * 5000, b"0" * 5000 + b"1", b"1." + b"0" * 5000 + b"1", b"0.49999999999999999999", b"0.5e0", b"123456789012345678e0",
    "\u0663\u0664".encode(), "\u00b2".encode(), "\uff11\uff12".encode(), "\u2212\u0031".encode(), "\u0967".encode(),
    b"--1", b"+-1", b"1e", b"e1", b"1e+", b".", b"-", b"+", b"",
)  # fmt: skip
"""Hostile numbers: limits, wraps, forms of float, digits of other scripts."""
TEXTS = (
    b"now", b"today", b"tomorrow", b"noon", b"midnight", b"Unknown", b"UNLIMITED", b"Partition_Limit", b"INVALID", b"None assigned",
    b"9999-12-31T23:59:59", b"0001-01-01T00:00:00", b"1969-12-31T23:59:59", b"2262-04-12T00:00:00", b"2024-02-30T00:00:00", b"2024-13-01T00:00:00",
    b"2024-05-01T24:00:00", b"2024-05-01T10:00:60", b"2024-05-01",
    b"now-1hour", b"2024-05-01T10:00:00Z", b"2024-05-01T10:00:00+02:00",
    b'=HYPERLINK("http://a")', b"@SUM(1)", b"\x1b[31mred\x1b[0m", b"\x1b]0;owned\x07", b"[bold red]x[/]", b"[/nothing]", b"<script>alert(1)</script>",
    b"../../etc/passwd", b"..", b"...", b"/dev/zero", b"http://[", b"http://a:99999999/x", b"~nobody-there/x", b"%00", b"a\x00b", b"\\u0000", b"\x00",
    b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", "\u202e".encode(), "\u2028".encode(), "\u0085".encode(), b"\xef\xbb\xbf", b"#",
    b"#Time", b"; MaxProcs: 4", b'"', b'""', b'"a\nb"',
    b"7_[1-99999999999999999999]",
    b"7_[" + b"1," * 3000 + b"2%4]", b"n[0-99999999]", b"n[0-9][0-9][0-9]", b"n[1-3", b"n]1[", b"a" * 300, b"x" * 200_000, b"[" * 2000, b"7.batch", b"1+1",
)  # fmt: skip
_SEPARATORS = (b"|", b",", b" ", b"\t", b";", b'"', b"\n", b"\r", b"\r\n", b"\x0b", b"\x0c", b"\x1c", b"=")

Mutation = Callable[[bytes, random.Random], bytes]


def _flip(data: bytes, r: random.Random) -> bytes:
    at = r.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << r.randrange(8))]) + data[at + 1 :]


def _byte(data: bytes, r: random.Random) -> bytes:
    at = r.randrange(len(data))
    return data[:at] + bytes([r.randrange(256)]) + data[at + r.randrange(2) :]


def _remove(data: bytes, r: random.Random) -> bytes:
    at = r.randrange(len(data))
    return data[:at] + data[at + r.choice((1, 1, 2, 5, 20)) :]


def _insert(data: bytes, r: random.Random) -> bytes:
    at = r.randrange(len(data) + 1)
    return data[:at] + r.choice((*TEXTS, *_SEPARATORS)) + data[at:]


def _cut(data: bytes, r: random.Random) -> bytes:
    return data[: r.randrange(len(data))] if r.random() < 0.7 else data[r.randrange(len(data)) :]


def _number(data: bytes, r: random.Random) -> bytes:
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?", data))
    if not numbers:
        return _insert(data, r)
    place = r.choice(numbers)
    return data[: place.start()] + r.choice(NUMBERS) + data[place.end() :]


def _field(data: bytes, r: random.Random) -> bytes:
    fields = list(re.finditer(rb"[^|,\n\r]+", data))
    if not fields:
        return _insert(data, r)
    place = r.choice(fields)
    return data[: place.start()] + r.choice((*TEXTS, *NUMBERS, b"")) + data[place.end() :]


def _lines(data: bytes, r: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return _insert(data, r)
    one, other = r.randrange(len(lines)), r.randrange(len(lines))
    match r.randrange(5):
        case 0:
            lines.insert(other, lines[one])
        case 1:
            lines.insert(other, lines.pop(one))
        case 2:
            del lines[one]
        case 3:
            lines[one : one + 1] = [lines[one]] * r.choice((2, 50))
        case _:
            lines[one] = lines[one][: r.randrange(len(lines[one]) + 1)]
    return b"".join(lines)


def _ends(data: bytes, r: random.Random) -> bytes:
    end = r.choice((b"\r\n", b"\r", b"\n\n", b"\n \n", b"\r\r\n", b""))
    return data.replace(b"\n", end, r.choice((-1, 1, 3)))


def _encoding(data: bytes, r: random.Random) -> bytes:
    text = data.decode("utf-8", "replace")
    match r.randrange(4):
        case 0:
            return text.encode("utf-16")
        case 1:
            return b"\xef\xbb\xbf" * r.choice((1, 2)) + data
        case 2:
            return text.replace("a", "\u00e4").encode("latin-1", "replace")
        case _:
            return text.replace("e", "\u00e9\U0001f600").encode()


def _tail(data: bytes, r: random.Random) -> bytes:
    """Hit the last kilobyte, where the metadata of Parquet are."""
    at = max(0, len(data) - r.choice((8, 12, 64, 512, 4096))) + r.randrange(8)
    return data[:at] + _byte(data[at:], r) if data[at:] else _byte(data, r)


OFTEN = (*[_number] * 3, *[_field] * 2, *[_lines] * 2)
TEXT: tuple[Mutation, ...] = (_flip, _byte, _remove, _insert, _cut, *OFTEN, _ends, _encoding)
BINARY: tuple[Mutation, ...] = (_flip, _byte, _remove, _cut, _tail, _tail, _tail, _flip)


def mutated(data: bytes, r: random.Random, kinds: tuple[Mutation, ...]) -> bytes:
    """Return ``data`` after one to four mutations."""
    for _ in range(r.choice((1, 1, 1, 1, 2, 3))):
        if data:
            data = r.choice(kinds)(data, r)
    return data


def packed(data: bytes, r: random.Random) -> bytes:
    """Return ``data`` as gzip, one time in three damaged, cut, doubled or with something behind it."""
    whole = gzip.compress(data, 1, mtime=0)
    if r.random() < 0.67:
        return whole
    match r.randrange(4):
        case 0:
            return whole[: r.randrange(len(whole))]
        case 1:
            return whole + whole
        case 2:
            return whole + r.choice((b"\0" * 100, b"x", whole[:5]))
        case _:
            return _byte(whole, r)
