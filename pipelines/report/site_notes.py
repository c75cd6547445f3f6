"""Notes on pages of a Slurm site: keys not modelled, and a fall of what is explained."""

from sim.explained import Fall
from sim.slurm.site import Site


def warnings_of(site: Site) -> list[str]:
    """Return the warnings at the top of every page of a site."""
    return [f"{text} changes decisions and is not modelled." for text in site.warnings]


def not_modelled(site: Site) -> list[str]:
    """Return a note on the keys that are not modelled, if any."""
    return [f"Not modelled: {', '.join(site.not_modelled)}."] if site.not_modelled else []


def fallen(fall: Fall | None) -> str:
    """Return a sentence on a fall of explained decisions and its possible cause, or ""."""
    if fall is None:
        return ""
    return (
        f"decisions explained fell from {fall.before:.0%} to {fall.after:.0%} on {fall.day}: "
        "were settings, limits or nodes changed that day?"
    )
