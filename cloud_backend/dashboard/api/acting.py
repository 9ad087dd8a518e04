"""The acts as routes of `/v1/api`: a route per line of the table, made from what the line says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import Parameter, Signature
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from cloud_backend.dashboard.acts.act import Act, NoFields, carry_out
from cloud_backend.dashboard.acts.results import Export
from cloud_backend.dashboard.acts.table import ACTS
from cloud_backend.dashboard.api.parameters import REFUSALS
from cloud_backend.dashboard.sign_in.access import Person, require
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views.exports import MEDIA_TYPES, File

_FILES: dict[str, dict[str, str]] = {media.partition(";")[0]: {} for media in MEDIA_TYPES.values()}


class Done(BaseModel):
    done: bool = True


def acting_router(sources: Sources) -> APIRouter:
    router = APIRouter(responses=REFUSALS)
    for act in ACTS:
        method, _, path = act.api.partition(" ")
        tag = path.split("/")[3]
        router.add_api_route(
            path, _endpoint(act, sources), methods=[method], summary=act.summary, tags=[tag],
            operation_id=act.do.__name__, response_class=Response if act.fields is Export else JSONResponse,
            responses={200: {"description": "the file", "content": _FILES}} if act.fields is Export else None,
        )  # fmt: skip
    return router


def _endpoint(act: Act[Any], sources: Sources) -> Callable[..., Awaitable[Any]]:
    """A function with the parameters that FastAPI documents and checks: who, what it is done to, and the fields."""

    async def endpoint(**given: Any) -> Any:
        fields = given.get("fields") or NoFields()
        answer = await carry_out(act, sources, given["person"], str(given.get(act.subject_name, "")), fields)
        if isinstance(answer, File):
            headers = {"Content-Disposition": f'attachment; filename="{answer.name}"'}
            return Response(answer.content, media_type=answer.media_type, headers=headers)
        return Done() if answer is None else answer

    parameters = [_parameter("person", Annotated[Person, Depends(require(act.role, act.word))])]
    if act.subject is not None:
        parameters.append(_parameter(act.subject_name, act.subject))
    if act.api.startswith("GET "):
        parameters.append(_parameter("fields", Annotated[act.fields, Query()]))
    elif act.fields is not NoFields:
        parameters.append(_parameter("fields", act.fields))
    endpoint.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # what FastAPI reads
    endpoint.__name__ = act.do.__name__
    return endpoint


def _parameter(name: str, kind: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind)
