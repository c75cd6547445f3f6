"""A page that describes a service by its OpenAPI, without scripts or other sites."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; vertical-align: top; padding: 0.3rem 0.8rem 0.3rem 0; border-bottom: 1px solid #ddd; }}
code {{ background: #f3f4f5; padding: 0 0.2rem; }}
</style>
</head>
<body>
"""


def docs_page(api: Mapping[str, Any]) -> str:
    """Return the page of an OpenAPI description: every path and every field."""
    info = api["info"]
    parts = [
        _HEAD.format(title=escape(info["title"])),
        f"<h1>{escape(info['title'])}</h1>",
        f"<p>{escape(info.get('summary', ''))}</p>",
    ]
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{_prose(operation.get('description', ''))}</p>")
            forms = sorted(_names(operation.get("requestBody", {}))), sorted(_names(operation.get("responses", {}).get("200", {})))
            for what, names in zip(("A request is", "An answer is"), forms, strict=True):
                if names:
                    parts.append(f"<p>{what} {' or '.join(map(_link, names))}.</p>")
    parts.append("<h2>Fields</h2>")
    for name, schema in api.get("components", {}).get("schemas", {}).items():
        parts += [
            f'<h3 id="{escape(name)}">{escape(name)}</h3>',
            f"<p>{_prose(schema.get('description', ''))}</p>",
            _fields(schema),
        ]
    return "\n".join([*parts, '<p>The same for programs: <a href="openapi.json">openapi.json</a>.</p>', "</body></html>"])


def _fields(schema: Mapping[str, Any]) -> str:
    """Return a table of a form's fields; "" for a form without."""
    needed = schema.get("required", ())
    rows = [
        f"<tr><td><code>{escape(name)}</code></td><td>{_kind(field)}</td><td>{'yes' if name in needed else 'no'}</td>"
        f"<td>{_prose(field.get('description', ''))}</td></tr>"
        for name, field in schema.get("properties", {}).items()
    ]
    return f"<table><tr><th>field</th><th>type</th><th>required</th><th>meaning</th></tr>{''.join(rows)}</table>" if rows else ""


def _kind(field: Mapping[str, Any]) -> str:
    """Return a field's type in words, with links to the forms that it holds."""
    if "$ref" in field:
        return _link(field["$ref"].rpartition("/")[2])
    if several := field.get("anyOf") or field.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_kind, several)))
    if field.get("type") == "array":
        return f"list of {_kind(field.get('items', {}))}"
    return escape(str(field.get("type", "any")))


def _prose(text: str) -> str:
    """Return the text of a docstring, its names as code."""
    return re.sub(r"``(.+?)``", r"<code>\1</code>", escape(text))


def _link(name: str) -> str:
    return f'<a href="#{escape(name)}">{escape(name)}</a>'


def _names(part: Any) -> set[str]:
    """Return the names of the forms that a part of the description refers to."""
    if isinstance(part, Mapping):
        own = {str(part["$ref"]).rpartition("/")[2]} if "$ref" in part else set()
        return own.union(*map(_names, part.values()))
    return set().union(*map(_names, part)) if isinstance(part, list) else set()
