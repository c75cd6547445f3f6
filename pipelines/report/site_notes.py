"""Notes on pages of a Slurm site: keys not modelled, and a fall of what is explained."""

from sim.site.explained import Fall
from sim.slurm.conf import OPEN
from sim.slurm.site import Site


def warnings_of(site: Site) -> list[str]:
    """Return the warnings at the top of every page of a site."""
    return [f"{text} changes decisions and is not modelled." for text in site.warnings]


def harmless(site: Site) -> list[str]:
    """Return the keys that are not read and say nothing on which jobs may run where."""
    return [key for key in site.not_modelled if key not in OPEN]


def changing(site: Site) -> list[str]:
    """Return a note on each key that is not modelled and changes which jobs may run where."""
    return [f"Not modelled: {key}: {OPEN[key]} in replays." for key in site.not_modelled if key in OPEN]


def not_modelled(site: Site) -> list[str]:
    """Return the notes of :func:`changing`, and one on all other keys."""
    others = harmless(site)
    return changing(site) + [
        f"{len(others)} settings that say nothing on which jobs may run where are not read: {', '.join(others)}."
    ] * bool(others)


def fallen(fall: Fall | None) -> str:
    """Return a sentence on a fall of explained decisions and its possible cause, or ""."""
    if fall is None:
        return ""
    return (
        f"decisions explained fell from {fall.before:.0%} to {fall.after:.0%} on {fall.day}: "
        "were settings, limits or nodes changed that day?"
    )
