"""A page about the server's paths, made from its OpenAPI description; it asks no other server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
section { border-top: 1px solid #8886; padding: .5rem 0 }
code { font-size: .95em } table { border-collapse: collapse }
td { padding: .15rem 1rem .15rem 0; vertical-align: top }
"""


def reference(described: Mapping[str, Any]) -> str:
    """The page for an OpenAPI description."""
    known = described.get("components", {}).get("schemas", {})
    parts = [
        _operation(method.upper(), path, told, known)
        for path, methods in described["paths"].items()
        for method, told in methods.items()
    ]
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Paths of this server</title>"
        '<link rel=icon href="data:,">'
        '<meta name=viewport content="width=device-width,initial-scale=1">'
        f"<style>{STYLE}</style><h1>Paths of this server</h1>"
        '<p><a href="/openapi.json">openapi.json</a> describes them for programs, and '
        '<a href="/">/</a> is a page to try images on.</p>'
        f"{''.join(parts)}</html>"
    )


def _operation(method: str, path: str, told: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    rows: list[tuple[str, str]] = []
    for content, form in told.get("requestBody", {}).get("content", {}).items():
        fields = ", ".join(form["schema"]["properties"])
        rows.append(("takes", f"<code>{escape(content)}</code> with {escape(fields)}"))
    for parameter in told.get("parameters", ()):
        name, about = parameter["name"], parameter.get("description", "")
        rows.append((f"?{name}=", escape(about)))
    for status, answer in told["responses"].items():
        rows.append((status, escape(answer.get("description", "")) + _fields(answer, known)))
    body = "".join(f"<tr><td>{escape(name)}<td>{text}" for name, text in rows)
    about = escape(told.get("description", ""))
    return (
        f"<section><h2><code>{method} {escape(path)}</code></h2><p>{about}</p>"
        f"<table>{body}</table></section>"
    )


def _fields(answer: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """The fields of a JSON answer, those inside it too."""
    schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
    found = "".join(
        f"<br><code>{escape(name)}</code> {escape(about)}" for name, about in _named(schema, known)
    )
    return found


def _named(schema: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    for field, told in known.get(name, {}).get("properties", {}).items():
        yield field, told.get("description", "")
        for inner, about in _named(told.get("items", {}), known):
            yield f"{field}[].{inner}", about
