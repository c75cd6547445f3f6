"""Show how predicted starts came true."""


def render_starts(answers, provenance):
    """Return the page."""
    return "<html></html>"
