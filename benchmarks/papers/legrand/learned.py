"""Learn a queue order that beats SAF (Legrand, Trystram & Zrigui 2018), and make its card.

``python -m benchmarks.papers.legrand.learned`` runs the protocol of :mod:`benchmarks.papers.legrand.learned_study`, about an hour of two
cores, and prints the card docs/studies/learned-policies.md; ``--write`` makes it, its picture, its data and the example policies, ``--card``
the card alone, of the data that are there; ``--training`` stops before the look. Steps are kept under ``--keep``. Needs the traces under
``--shared``.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.common.card import parser, rows_of, show, write_rows
from benchmarks.common.pages import STUDIES
from benchmarks.papers.legrand import learned_card as page
from benchmarks.papers.legrand.learned_policy import EXAMPLES, policy_of
from benchmarks.papers.legrand.learned_study import NAME, SPLITS, Study
from pipelines.storage.policies import write_policy


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--keep", type=Path, default=Path(".queuecast/learned"), help="folder of the results of steps")
    arguments.add_argument("--training", action="store_true", help="learn and choose alone, and look at no testing week")
    options = arguments.parse_args()
    study = Study(options.shared, options.keep)
    if options.training:
        print(page.training(study).to_string())
        return

    def compute() -> pd.DataFrame:
        training, rows = page.training(study), page.looked(study).round(5)
        if options.write:
            write_rows(STUDIES / "data" / f"{page.PAGE}-training.csv", training)
            (STUDIES / f"{page.PAGE}.png").write_bytes(page.draw(rows))
            for name in SPLITS:
                score, trials = str(training["score"].iloc[-1]), int(training["trials"].sum())
                write_policy(EXAMPLES / f"learned-{name}.json", policy_of(name, score, rows, trials))
        return rows

    show(page.card(*rows_of(options, NAME, f"{page.PAGE}.csv", compute)), page.PAGE, options)


if __name__ == "__main__":
    main()
