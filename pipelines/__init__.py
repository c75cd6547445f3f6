"""Assets, commands and pages: the packages beside this one, run on a site's own logs."""

from importlib.util import find_spec
from pathlib import Path

_ROOMS = ("features", "models", "sim")


def hidden() -> str:
    """Return a line about a module of the user's that hides one of Queuecast's, or ""."""
    for room in _ROOMS:
        spec, own = find_spec(room), Path(__file__).parents[1] / room / "__init__.py"
        if spec is None or spec.origin is None or not Path(spec.origin).samefile(own):
            place = "nothing" if spec is None else spec.origin or next(iter(spec.submodule_search_locations or ["?"]))
            return f"{place} hides the package {room} of Queuecast: rename it, or start in another directory"
    return ""
