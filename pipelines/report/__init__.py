"""The comparison as people read it: figures and one self-contained HTML page."""
