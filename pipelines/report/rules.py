"""The tables of an inferred rule, and of the part of a record that it explains."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pipelines.report.table import Table
from pipelines.workflows.rules import Inference
from sim.rules.rule import Rule

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def in_words(rule: Rule) -> list[str]:
    """Return a rule in words, one sentence per part."""
    times = ", ".join(f"{_DAYS[second // 86_400]} {second // 3600 % 24:02d}:{second // 60 % 60:02d}" for second in rule.closings)
    sentences = [f"{rule.algorithm} on {rule.procs:,} processors, in the order of {rule.order or 'submission'}."]
    if times:
        sentences.append(f"A job starts only if it is planned to end by the next of {times}.")
    sentences += [f"Jobs of queue {name} start at the hours {_spans(hours)} alone." for name, hours in rule.hours]
    if rule.queues:
        sentences.append("Queues hold at most: " + ", ".join(f"{name} {most:,}" for name, most in rule.queues) + " processors.")
    return sentences + [f"At most {limit}." for limit in rule.limits]


def _spans(hours: tuple[int, ...]) -> str:
    begins = [hour for hour in hours if (hour - 1) % 24 not in hours]
    ends = [(hour + 1) % 24 for hour in hours if (hour + 1) % 24 not in hours]
    ends = ends[1:] + ends[:1] if ends and begins and ends[0] <= begins[0] else ends
    return " and ".join(f"{begin} to {end}" for begin, end in zip(begins, ends, strict=True)) or "0 to 24"


def answer(inference: Inference) -> list[str]:
    """Return in two sentences what the rule explains, and what it does not."""
    rules = inference.explained.rules
    own, others = rules.iloc[-1], rules.iloc[:-1]
    best = others.iloc[int(others["correlation"].argmax())]
    return [
        f"{inference.name}: after the first part, waits under the inferred rule correlate {own['correlation']:.2f} with those recorded, under "
        f"{best['rule']}, the nearest of the known ones, {best['correlation']:.2f}; it decides {own['decisions']:.0%} as recorded, they "
        f"{others['decisions'].max():.0%} at best.",
        f"Recorded are {inference.recorded_s:,.0f} s in the mean, replayed {own['mean_wait_s']:,.0f} s: of the recorded waiting {own['same']:.0%} is "
        "explained, for the same job waits it in the replay, too.",
    ]


def record(inference: Inference) -> dict[str, Any]:
    """Return everything found, for JSON."""
    tables = {name: getattr(inference.explained, name).to_dict("records") for name in ("rules", "sizes", "months")}
    steps = inference.inferred.steps.to_dict("records")
    return {"trace": inference.name, "answer": answer(inference), "rule": asdict(inference.inferred.rule), "steps": steps, **tables}


def tables(inference: Inference) -> list[Table]:
    """Return how the rule was inferred, and what it explains beside known rules.

    Further tables have mean waits by size, and correlations by month.
    """
    explained = inference.explained
    steps = [[str(row.what), f"{row.correlation:.3f}", f"{row.off:.2f}"] for row in inference.inferred.steps.itertuples()]
    rules = [
        [row["rule"], *(f"{row[name]:.3f}" for name in ("first", "correlation")), f"{row['mean_wait_s']:,.0f}", f"{row['off']:.2f}"]
        + [f"{row[name]:.0%}" for name in ("same", "starts", "waits", "decisions")]
        for row in explained.rules.to_dict("records")
    ]
    names = list(explained.rules["rule"])
    sizes = [
        [f"{row['procs']:,} or more", f"{row['jobs']:,}", *(f"{row[name]:,.0f}" for name in ("recorded", *names))]
        for row in explained.sizes.to_dict("records")
    ]
    months = [
        [f"{row['month'] + 1}", f"{row['jobs']:,}", f"{row['out_of_hours']:.0%}", *(f"{row[name]:.3f}" for name in names)]
        for row in explained.months.to_dict("records")
    ]
    return [
        Table("What brought replays of the first part nearer to the record", ["change", "correlation", "off*"], steps),
        Table(
            "What rules explain of the later part",
            ["rule", "correlation, first part", "later", "mean wait s", "off*", "waiting", "starts", "waits", "decisions"],
            rules,
            "* powers of ten between mean waits by size; starts and waits: decided as recorded, from recorded states",
        ),
        Table("Mean waits of the later part by processors, s", ["processors", "jobs", "recorded", *names], sizes),
        Table("Correlations by 30 days", ["month", "jobs", "started out of hours", *names], months),
    ]
