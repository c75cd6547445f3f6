"""Fetching from an archive: a local server stands in for it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pipelines.lake.places import archive
from pipelines.readers import fetch as fetching
from pipelines.readers.catalogue import Entry, load_catalogue
from pipelines.readers.read import read_trace
from tests.pipelines.readers.test_catalogue import SWF, elsewhere
from tests.support.refusals import refusal

__all__ = ["elsewhere"]  # a fixture used by all
PACKED = gzip.compress(SWF.encode(), mtime=0)


class _Archive(BaseHTTPRequestHandler):
    """Sends a trace in the way its address asks for."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        if "missing" in self.path:
            return self.send_error(404)
        self.send_response(200)
        body = b"<html>gone</html>" if "html" in self.path else PACKED
        offered = "gzip" in self.headers.get("Accept-Encoding", "")
        if "unpacking" in self.path or ("negotiating" in self.path and offered):
            self.send_header("Content-Encoding", "gzip")
        if "chunked" not in self.path:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:-10] if "truncated" in self.path or "chunked" in self.path else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), _Archive) as running:
        running.asked = []  # type: ignore[attr-defined]
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


def fetch(name: str, catalogue: dict[str, Entry], directory: Path) -> Path:
    """Fetch a trace with a checksum, of which nothing is to be said."""
    return fetching.fetch(name, catalogue, directory, pytest.fail)


def remote(server: HTTPServer, path: str, **keys: str) -> dict[str, Entry]:
    checks = keys or {"sha256_content": sha256(gzip.decompress(PACKED)).hexdigest()}
    return {"a": Entry("a", place=f"http://127.0.0.1:{server.server_port}/{path}", stated_in=Path("site.toml"), **checks)}  # type: ignore[arg-type]


def test_a_trace_is_fetched_once_and_then_read(server: HTTPServer, elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalogue = remote(server, "l_a/A-1.swf.gz")
    path = fetch("a", catalogue, archive())
    assert path == elsewhere / "home" / "archive" / "A-1.swf.gz"
    assert path.read_bytes() == PACKED
    assert list(archive().iterdir()) == [path]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "A-1.swf.gz" in printed.err
    assert fetch("A", catalogue, archive()) == path
    assert server.asked == ["/l_a/A-1.swf.gz"]  # type: ignore[attr-defined]
    assert read_trace("a", catalogue=catalogue).procs == 64


@pytest.mark.parametrize(
    ("path", "keys", "error"),
    [
        ("html/A-1.swf.gz", {"sha256_content": "0" * 64}, "is not the trace a of site.toml: sha256_content is {html}..., not 000000000000..."),
        ("truncated/A-1.swf.gz", {}, "cannot be fetched: the connection ended before the file did"),
        ("chunked/A-1.swf.gz", {}, "truncated: the gzip data end before their end mark"),
        ("missing/A-1.swf.gz", {}, "cannot be fetched: the server answers 404 Not Found"),
    ],
)  # fmt: skip
def test_what_does_not_arrive_whole_and_right_leaves_nothing_and_keeps_what_was_there(
    path: str, keys: dict[str, str], error: str, server: HTTPServer
) -> None:
    catalogue = remote(server, path, **keys)
    expected = f"{catalogue['a'].place}: {error.format(html=sha256(b'<html>gone</html>').hexdigest()[:12])}"
    assert refusal(fetch, "a", catalogue, archive()) == expected
    assert list(archive().iterdir()) == []
    (archive() / "A-1.swf.gz").write_bytes(b"old")
    assert refusal(fetch, "a", catalogue, archive()) == expected
    assert [file.read_bytes() for file in archive().iterdir()] == [b"old"]


def test_a_download_without_a_known_checksum_is_noted_and_taken(server: HTTPServer, elsewhere: Path) -> None:
    address = f"http://127.0.0.1:{server.server_port}/A-1.swf.gz"
    (elsewhere / "queuecast.toml").write_text(f'[traces.a-1]\nplace = "{address}"\n')
    catalogue, notes = load_catalogue(), list[str]()
    assert refusal(read_trace, "a-1", catalogue=catalogue) == "a-1: not fetched yet: run `queuecast fetch a-1`"
    path = fetching.fetch("a-1", catalogue, archive(), notes.append)
    (note,) = notes
    assert sha256(SWF.encode()).hexdigest() in note
    assert read_trace("a-1", catalogue=catalogue).procs == 64
    assert fetching.fetch("a-1", catalogue, archive(), notes.append) == path
    assert (len(notes), len(server.asked)) == (1, 1)  # type: ignore[attr-defined]


def test_an_error_page_is_no_trace(server: HTTPServer) -> None:
    unchecked = {"a": Entry("a", place=f"http://127.0.0.1:{server.server_port}/html/A-1.swf.gz")}
    assert "is not a trace" in refusal(fetch, "a", unchecked, archive())
    assert list(archive().iterdir()) == []


def test_what_cannot_be_fetched_is_refused_before_anything_is_asked(server: HTTPServer) -> None:
    local = {"a": Entry("a", place="b.swf", stated_in=Path("/x/site.toml")), "g": Entry("g", format="generated")}
    assert refusal(fetch, "a", local, archive()) == "a: needs no fetching, it is /x/b.swf"
    assert refusal(fetch, "g", local, archive()) == "g: needs no fetching, it is generated"
    assert refusal(fetch, "z", remote(server, "x"), archive()) == "z: is not a trace of the catalogue; known: a"
    assert server.asked == []  # type: ignore[attr-defined]
