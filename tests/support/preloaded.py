"""What commands load of libraries after they began: once, in the process that those of tests are forked from.

The collector leaves it out of its passes, as in the process of the tests themselves.
"""

from __future__ import annotations

import gc

import mlflow.pyfunc.model
import mlflow.store.model_registry.sqlalchemy_store
import mlflow.store.tracking.sqlalchemy_store  # noqa: F401
from numba.core.registry import cpu_target

cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
gc.collect()
gc.freeze()
