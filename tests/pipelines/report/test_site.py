"""Where a job would start soonest, in sentences."""

from pipelines.report.site import sentences_of_places


def place(queue: str, qos: str, wait_s: float, sooner: float | None) -> dict[str, object]:
    return {"queue": queue, "qos": qos, "wait_10_s": 0.0, "wait_50_s": wait_s, "wait_90_s": 2 * wait_s, "sooner": sooner}


def test_places_with_equal_starts_share_a_line_and_are_compared_with_the_next_other_one() -> None:
    equal = [place("debug", "low", 5.0, 0.5), place("debug", "normal", 5.0, 0.5), place("normal", "low", 5.0, 0.95)]
    assert sentences_of_places([*equal, place("gpu", "low", 60.0, None)]) == [
        "in any of debug with QOS low or normal, normal with QOS low: expected to start in 5 s (80 %: 0 s to 10 s); surely sooner than in "
        "the next (a chance of 95%)",
        "in gpu with QOS low: expected to start in 60 s (80 %: 0 s to 2.0 min)",
    ]


def test_places_that_differ_in_some_simulations_have_a_line_each() -> None:
    near = [place("cpu", "", 5.0, 0.6), place("gpu", "", 5.0, None)]
    assert [line.partition(":")[0] for line in sentences_of_places(near)] == ["in cpu", "in gpu"]
