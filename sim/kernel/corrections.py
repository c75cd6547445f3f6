"""Corrections: new predictions for running jobs that have outlived their predictions.

``requested``: the request. ``tsafrir`` (Tsafrir, Etsion & Feitelson 2007): the k-th correction is the first
prediction plus the k-th of a list of growing steps, after the last step the request, and never more than the request.
The steps are those of the program behind Gaussier et al. 2015, or with ``tsafrir(steps=okcm)`` those of Li & Zhang
(OKCM). ``doubling``: twice the last prediction, not capped at the request, as in the published experiments of
Gaussier et al. 2015. ``conditional``: the predictor answers again, given how long the job has run.
``conditional(when=pass)``: it does so for every running job before every scheduling pass, even for jobs that have not
outlived their predictions. :func:`models.runtime.dispatch.estimate_again` defines the answers of point predictors:
the current prediction if not outlived, else that of the submission, else the request.
"""

from __future__ import annotations

import numpy as np

from features.jit import kernel

REQUESTED, TSAFRIR, TSAFRIR_OKCM, DOUBLING, CONDITIONAL, RENEWED = range(6)

CORRECTIONS: dict[str, int] = {
    "requested": REQUESTED,
    "tsafrir": TSAFRIR,
    "tsafrir(steps=okcm)": TSAFRIR_OKCM,
    "doubling": DOUBLING,
    "conditional": CONDITIONAL,
    "conditional(when=pass)": RENEWED,
}

STEPS_S = np.array([60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000])
"""1, 5, 15 and 30 minutes, 1, 2, 5, 10, 20, 50 and 100 hours: the steps of the program behind Gaussier et al. 2015."""


@kernel
def corrected(correction, earlier, planned, start, estimate, requested):
    """Return the new predicted end of a job that has outlived ``planned``.

    ``earlier`` is the number of its earlier corrections, ``estimate`` its first predicted runtime.
    """
    if correction == TSAFRIR and earlier < len(STEPS_S):
        return start + min(estimate + STEPS_S[earlier], requested)
    if correction == TSAFRIR_OKCM:  # one minute more, then 15, 30, 60, ... minutes more
        return min(planned + (60 if earlier == 0 else 900 << (earlier - 1)), start + requested)
    if correction == DOUBLING:
        return planned + (planned - start)
    return start + requested
