"""The acts as forms of pages: a route per line of the table. What an act answers is a redirect with its sentence, or
what its page makes of it; a refusal is a page that says why, or the form once more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import TypeAdapter, ValidationError

from cloud_backend.dashboard.acts.act import Act, carry_out
from cloud_backend.dashboard.acts.table import ACTS
from cloud_backend.dashboard.pages.answers import Refused, back
from cloud_backend.dashboard.refusals import invalid, problem_of
from cloud_backend.dashboard.sign_in.access import Person, form_fields, require
from cloud_backend.dashboard.sources import Sources
from cloud_backend.gateway.http_problems import Problem
from shared.errors import ResurgeError

Form = dict[str, str]


@dataclass(frozen=True, slots=True)
class Visit:
    """Somebody sent a form: what a page's answer is made from."""

    request: Request
    sources: Sources
    person: Person
    form: Form
    subject: str


@dataclass(frozen=True, slots=True)
class ActPage:
    """How a page asks for an act and answers it, where that is not the usual way."""

    values: Callable[[Form], Mapping[str, Any]] = lambda form: form
    done: Callable[[Visit, Any], Response] | None = None
    refused: Callable[[Visit, Problem], Response] | None = None


def acting_router(sources: Sources, manners: Mapping[Act[Any], ActPage]) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    for act in ACTS:
        method, _, path = act.page.partition(" ")
        endpoint = _endpoint(act, sources, manners.get(act, ActPage()))
        router.add_api_route(path, endpoint, methods=[method], response_class=Response)
    return router


def _endpoint(act: Act[Any], sources: Sources, manner: ActPage) -> Callable[..., Awaitable[Response]]:
    async def endpoint(request: Request, person: Person, form: Form) -> Response:
        given = dict(request.path_params)
        subject = str(given.pop(act.subject_name, ""))
        # What only reads has its fields in the address, as the API has them.
        fields_given = dict(request.query_params) if request.method == "GET" else form
        visit = Visit(request, sources, person, fields_given | given, subject)
        try:
            if act.subject is not None:
                _check_subject(act, subject)
            fields = act.fields.of_form(manner.values(visit.form))
            answer = await carry_out(act, sources, person, subject, fields)
        except ValidationError as error:
            return _refused(visit, manner, invalid(error, act.fields))
        except ResurgeError as error:
            return _refused(visit, manner, problem_of(error))
        except Problem as problem:
            return _refused(visit, manner, problem)
        if manner.done is not None:
            return manner.done(visit, answer)
        return back(act.after.replace("{subject}", subject), act.word)

    endpoint.__signature__ = Signature(  # type: ignore[attr-defined]  # what FastAPI reads
        [
            Parameter("request", Parameter.KEYWORD_ONLY, annotation=Request),
            Parameter(
                "person",
                Parameter.KEYWORD_ONLY,
                annotation=Annotated[Person, Depends(require(act.role, act.word))],
            ),
            Parameter("form", Parameter.KEYWORD_ONLY, annotation=Annotated[Form, Depends(form_fields)]),
        ]
    )
    return endpoint


def _check_subject(act: Act[Any], subject: str) -> None:
    try:
        TypeAdapter(act.subject).validate_python(subject, strict=False)
    except ValidationError:
        detail = f"not as documented in /openapi.json: {act.subject_name}"
        raise Problem("request-invalid", detail, status=422) from None


def _refused(visit: Visit, manner: ActPage, problem: Problem) -> Response:
    if manner.refused is not None:
        return manner.refused(visit, problem)
    return Refused(visit.request, problem).response()
