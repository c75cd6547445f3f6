"""The pages of a run and of a night, from the tables that their stages kept."""

from dataclasses import replace
from datetime import UTC, datetime

import pandas as pd

from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from pipelines import code_version, software
from pipelines.lake.files import figures_text
from pipelines.report import plots
from pipelines.report.night import Night, render_night
from pipelines.report.page import encode
from pipelines.report.tables import BASELINE, leading, render_report
from pipelines.training.ledger import nights_before
from pipelines.training.run_settings import ACKNOWLEDGED, FIRST
from pipelines.training.work import Work, cutoff_of, date_of
from sim.metrics.verdict import verdict


def write_pages(work: Work, clean: CleanTrace) -> str:
    """Write and return the report of a trace; for a night, the night's page.

    A run also writes its comparison, as CSV and as a picture. A night also adds its row to the table ``nights``, and
    writes that as CSV.
    """
    if cutoff_of(work.lake.read_for(clean, "runtime_model")[1]).night:
        return write_night(work, clean).html
    html = run_page(work, clean)
    work.lake.write_page(f"{clean.name}.html", work.subject, html)
    comparison = work.lake.read_for(clean, "comparison")[0]
    work.lake.write_page(f"{clean.name}.csv", work.subject, figures_text(comparison))
    first = leading(comparison, verdict(comparison, BASELINE))
    work.lake.write_page(
        f"{clean.name}.png", work.subject, encode(plots.figure_of_changes(comparison, first, clean.generated), "png")
    )
    return html


def write_night(work: Work, clean: CleanTrace) -> Night:
    """Write the row and the pages of a night; return the content of the pages."""
    lake, pages = work.lake, f"nights/{clean.name}"
    registered, marks = lake.read_for(clean, "runtime_model")
    comparison, _ = lake.read_for(clean, "comparison")
    decided = marks["night"]
    row = decided["row"]
    label = row["night"]
    before, nights = nights_before(lake, clean.name, label), pd.DataFrame([row])
    if len(before):
        nights = pd.concat([before, nights], ignore_index=True)
    lake.write("nights", clean.name, nights, {"generated": clean.generated, "origin_unix_s": clean.origin_unix_s})
    folder = lake.root.parent / "reports" / pages
    night = Night(clean, row, nights, registered, decided["notes"], comparison, folder / f"{label}.html")
    page = render_night(night, work.run_id)
    lake.write_page(f"{pages}/{label}.html", work.subject, page)
    lake.write_page(f"{clean.name}.html", work.subject, page.replace('href="nights.csv"', f'href="{pages}/nights.csv"'))
    lake.write_page(f"{pages}/nights.csv", work.subject, figures_text(nights))
    return replace(night, html=page)


def run_page(work: Work, clean: CleanTrace) -> str:
    """Return the report of a run, of the lake's tables."""
    lake, date = work.lake, cutoff_of(work.lake.read_for(clean, "runtime_model")[1])
    table, settings = lake.read_for(clean, "comparison")
    quality, marks = lake.read_for(clean, "prediction_quality")
    model, _ = lake.read_for(clean, "runtime_model")
    simulated, since = marks["model"], date_of(clean, date.simulate_from_s)
    learned, replayed = date_of(clean, simulated["learned_until_s"]), settings["replayed_jobs"]
    missing = int(clean.jobs["wait_s"].isna().sum())
    simulations = lake.read_for(clean, "schedules")[1]["schedules"]
    notes = [
        f"Every policy replays {replayed:,} of {len(clean.jobs):,} jobs and is judged on the {settings['judged_jobs']:,} submitted from {since} on. "
        f"{date.note}".strip(),
        f"As served: version {simulated['version']} of runtime-{clean.name} ({simulated['method']}), loaded back from the registry, which "
        f"learned from jobs that had ended by {learned}. Each job is answered from the snapshot of the night before its submission, and "
        f"before that date by its request. {simulated['why']}".strip(),
        *([ACKNOWLEDGED] if clean.name == FIRST.trace else []),
        *[f"{missing:,} of {len(clean.jobs):,} waits are not recorded, so there is no row for the recorded schedule."]
        * bool(missing),
        *clean.notes,
    ]
    return render_report(
        clean,
        table,
        quality,
        provenance={
            "trace": clean.source or clean.name,
            "data fingerprint": fingerprint(clean.jobs),
            "jobs read and kept": f"{clean.jobs_read:,} and {len(clean.jobs):,}",
            "missing requests": clean.missing_request,
            "registered models": "; ".join(
                model["model"] + " version " + model["version"].astype(str) + " (" + model["method"] + ")"
            ),
            **{name: ", ".join(sorted({str(row[name]) for row in simulations})) for name in ("semantics", "seed", "shake_s")},
            "code": code_version(),
            "software": software(),
            "Dagster run": work.run_id,
            "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        },
        notes=notes,
        judged=(date.simulate_from_s, since),
    )
