"""What commands load of libraries after they began: once, in the process that those of tests are forked from.

The collector leaves it out of its passes, as in the process of the tests themselves.
"""

from __future__ import annotations

import gc

import mlflow.pyfunc.model
import mlflow.store.model_registry.sqlalchemy_store
import mlflow.store.tracking.sqlalchemy_store  # noqa: F401
from mlflow.utils import requirements_utils
from numba.core.registry import cpu_target

from tests.support.hastening import hasten_mlflow

cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
requirements_utils._init_modules_to_packages_map()
requirements_utils._init_packages_to_modules_map()
hasten_mlflow()
gc.collect()
gc.freeze()
