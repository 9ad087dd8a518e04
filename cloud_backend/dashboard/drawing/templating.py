"""Jinja pages: autoescaped, with every name they use defined, and assets addressed by a hash of their content."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from cloud_backend.dashboard.drawing import number_text
from cloud_backend.dashboard.sign_in.access import Person, csrf_token
from cloud_backend.dashboard.sign_in.security_headers import SECURITY_HEADERS

STATIC = Path(__file__).parents[1] / "static"


def page(
    request: Request, template: str, *, person: Person | None = None, status: int = 200, **values: object
) -> HTMLResponse:
    """A rendered template; it also gets `person` (None when nobody is signed in) and `csrf` for its forms."""
    html = environment().get_template(template).render(person=person, csrf=csrf_token(request), **values)
    # What is stored may hold what no text may hold: half a surrogate pair. A page shows the rest.
    return HTMLResponse(html.encode("utf-8", "replace"), status_code=status, headers=SECURITY_HEADERS)


@cache
def environment() -> Environment:
    pages = Environment(
        loader=PackageLoader("cloud_backend.dashboard"), autoescape=select_autoescape(), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    pages.filters.update(number_text.FILTERS)
    pages.globals["static"] = static_address
    pages.globals["version"] = _version()
    return pages


@cache
def static_address(name: str) -> str:
    return f"/static/{name}?{hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


def _version() -> str:
    try:
        return version("resurge")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "from source"
