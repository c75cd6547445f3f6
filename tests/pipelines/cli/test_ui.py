"""What ``queuecast ui`` and the metadata it shows must not get wrong."""

from __future__ import annotations

import socket

import pytest

from features.errors import InputError
from pipelines.assets.checks import escaped
from pipelines.cli.run import described
from pipelines.cli.ui import check_free


def test_a_taken_port_is_one_line_that_says_what_to_do():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} of 127.0.0.1 .*--port"):
            check_free("127.0.0.1", port)
    check_free("127.0.0.1", port)


def test_an_unknown_host_is_refused():
    with pytest.raises(InputError, match=r"--host no\.such\.host\.invalid"):
        check_free("no.such.host.invalid", 3000)


def test_angle_brackets_survive_markdown():
    assert escaped("runtime-<trace> & a|b") == "runtime-&lt;trace&gt; &amp; a\\|b"


@pytest.mark.parametrize(
    ("name", "generated", "words"),
    [("generated", True, "generated workload"), ("small", True, "generated workload small"), ("kth", False, "trace kth")],
)
def test_no_word_twice(name, generated, words):
    assert described(name, generated) == words
