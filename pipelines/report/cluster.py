"""The page of experiments on the simulated cluster, beside what Nichols et al. state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.report import cluster_plots as plots
from pipelines.report.cluster_published import beside
from pipelines.report.cluster_tables import (
    BY_APPLICATION,
    by_application,
    by_storm,
    decision_table,
    largest_table,
    looked_up,
    models_of,
    overall,
)
from pipelines.report.page import data_uri, stated, template
from pipelines.report.wording import sentence, signed
from pipelines.workflows.cluster_experiments import Conducted, label
from sim.cluster.comparison import ALL
from sim.cluster.simulate import STORM
from sim.metrics.names import TRIAL


def render_cluster(
    cluster: str, conducted: Sequence[Conducted], provenance: Mapping[str, object], notes: Sequence[str] = ()
) -> str:
    """Return the page of experiments on the cluster called ``cluster``, from values alone.

    ``provenance`` and ``notes`` are printed in their order.
    """
    first = conducted[0]
    return template("cluster.html.j2").render(
        cluster=cluster,
        names=", ".join(made.experiment.name for made in conducted),
        facts=[
            (f"{len(conducted)}", "experiments"),
            (f"{first.trials}", "trials of each, paired"),
            (f"{len(first.schedulers)}", "schedulers"),
            (f"{sum(len(made.runs) for made in conducted):,}", "simulated runs"),
        ],
        baseline=label(first.baseline),
        storm=f"{STORM:.0%}",
        summary=[said for made in conducted if (said := _said(made))],
        notes=[
            *notes,
            *(note for made in conducted for note in made.notes),
            *filter(None, [sentence(first.found["note"].iloc[0])]),
        ],
        published=beside(conducted),
        figures=_figures(conducted, cluster),
        experiments=[_tables(made) for made in conducted],
        provenance=stated(provenance),
    )


def _said(made: Conducted) -> str:
    """Say what the first model changed in varying runs, makespan and wait."""
    if not models_of(made):
        return ""
    rush = models_of(made)[0]
    rows = {metric: looked_up(made.found)[rush, ALL, metric] for metric in TRIAL}
    counted, pooled = rows["varied"], rows["varied_pooled"]
    text = f"{made.experiment.name}: {label(rush)} has {counted['mean']:.1f} runs with variation a trial, {label(made.baseline)} {counted['baseline']:.1f}"
    text += f" (by control runs; by the baseline's own {pooled['mean']:.1f} and {pooled['baseline']:.1f})"
    changes = [
        f"{what} {signed(100 * rows[name]['relative'], '.1f')} %"
        for name, what in (("makespan_s", "makespan"), ("wait_s", "mean wait"))
    ]
    return f"{text}; {', '.join(changes)}."


def _tables(made: Conducted) -> dict[str, Any]:
    of = made.experiment
    scales = f"{', '.join(map(str, of.nodes))} nodes" + (f", {of.scaling} scaling" if len(of.nodes) > 1 else "")
    return {
        "name": of.name,
        "title": of.title,
        "what": f"{of.jobs} jobs of {', '.join(of.applications)} on {scales}; a model trained for it learns from {', '.join(of.trained_on)}.",
        "overall": overall(made),
        "storms": by_storm(made),
        "applications": [by_application(made, metric) for metric in BY_APPLICATION],
        "largest": largest_table(made),
        "decisions": decision_table(made),
        "coin": f"{made.coin:.2f}" if made.coin == made.coin else "",
    }


def _figures(conducted: Sequence[Conducted], cluster: str) -> list[dict[str, str]]:
    drawn = [
        (
            "Runs with variation, by control runs",
            "z above 1.5 by mean and sigma of control runs under a continuous load. In the titles: runs of a trial, all applications "
            "together, in the order of the legend.",
            plots.varied(conducted, "varied"),
        ),
        (
            "Runs with variation, by the baseline's runs",
            "z above 1.5 by mean and sigma of the baseline's own runs of the experiment, all trials together: what figures 4 and 5 of the paper "
            "evidently count.",
            plots.varied(conducted, "varied_pooled"),
        ),
        ("Makespans", "Means over trials; with few trials each is a dot. The paper's figure 10.", plots.makespans(conducted)),
    ]
    if any(len(made.schedulers) > 1 for made in conducted):
        text = "The largest runtime of an application in a trial, over what is usual for it, mean over trials, with intervals: the paper's figure 9."
        drawn.insert(2, ("Improvement of the largest runtime", text, plots.improvements(conducted)))
        text = (
            "Of the jobs that were not submitted at once, with intervals. Dashed: a minute, within which the paper's figure 11 is."
        )
        drawn.append(("Change of the mean wait", text, plots.waits(conducted)))
    text = "Boxes are quartiles with the median, whiskers reach from the least to the largest of all trials, on a logarithmic axis. The paper's figures 6 to 8."
    drawn.insert(2, ("Distribution of runtimes", text, plots.runtimes(conducted)))
    return [
        {"title": title, "caption": f"{caption} Simulated cluster {cluster}.", "image": data_uri(image)}
        for title, caption, image in drawn
    ]
