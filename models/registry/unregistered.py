"""Say that a model is not registered, and what would register it."""

from features.errors import InputError

_REGISTERED_BY = {
    "runtime": "queuecast run --trace {}",
    "start": "queuecast run --trace {} --starts",
    "variability": "queuecast run --system {}",
    "policy": "queuecast run --trace {}",
}
"""Command that registers a champion, by kind of model."""


def unregistered(name: str, alias: str, where: str = "", alternatives: str = "") -> InputError:
    """Return the error for a missing model; ``where`` names the registry, or is empty.

    ``alternatives`` are aliases or names that the registry has.
    """
    kind, _, subject = name.partition("-")
    command = _REGISTERED_BY.get(kind, "").format(subject) if subject and alias == "champion" else ""
    registers = f"{command} registers one" if command else ""
    why = "; ".join(filter(None, (alternatives, registers)))
    return InputError(f"no registered model {name}@{alias}{where}" + (f": {why}" if why else ""))
