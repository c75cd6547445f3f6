"""Dagster's config of assets, made from the settings that are also command options."""

from typing import Any, get_args, get_origin

import dagster as dg
from pydantic import Field, create_model

from sim.settings import CheckedSettings


def config_of(shape: type[CheckedSettings], *names: str) -> type[dg.Config]:
    """Return Dagster's config with the fields ``names`` of ``shape``.

    Defaults and descriptions are those of the fields. Tuples become lists, since Dagster has no tuples.
    """
    fields: dict[str, Any] = {}
    for name in names:
        field = shape.model_fields[name]
        several = get_origin(field.annotation) is tuple
        kind = list[get_args(field.annotation)[0]] if several else field.annotation  # type: ignore[misc]
        default = list(field.default) if several else field.default
        fields[name] = (kind, Field(default=default, description=field.description))
    return create_model(f"{shape.__name__}Config", __base__=dg.Config, **fields)
