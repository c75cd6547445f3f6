"""Nights keep the quantiles that were served, whole; those of :mod:`tests.pipelines.dated.test_nights` train none."""

from __future__ import annotations

from pathlib import Path

import mlflow
import numpy as np
import pytest

from models.packed.methods import Boosting, Quantile
from models.registry.as_served import quantile_columns
from pipelines.dated.night import replay_nights
from pipelines.storage.lake import Lake
from tests.support.arriving import CHANGE_DAY, source


@pytest.mark.thorough
@pytest.mark.usefixtures("undrawn_pictures")
def test_quantiles_are_kept_as_they_were_served(tmp_path: Path) -> None:
    before, trace = mlflow.get_tracking_uri(), source()
    for _ in replay_nights(trace, trace.midnights[CHANGE_DAY - 2 : CHANGE_DAY], tmp_path):
        pass
    mlflow.set_tracking_uri(before)
    served, _ = Lake(tmp_path / "lake").read("served", "arriving")
    answered = served[served["champion"].notna()]
    assert len(answered) > 0
    for name in (Quantile.name, "champion"):
        quantiles = answered[[*quantile_columns(name).values()]].to_numpy()
        assert quantiles.shape[1] == 9
        assert (np.diff(quantiles, axis=1) >= 0).all()
    assert not {f"{Boosting.name}_80_s", "last2_80_s"} & set(served.columns)
