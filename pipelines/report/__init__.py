"""Reports: figures, tables and self-contained HTML pages."""
