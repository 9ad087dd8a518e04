"""`POST /v1/enrol`: a device introduces its key with a code from `resurge device pair`."""

from __future__ import annotations

import asyncio
import time

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from cloud_backend.gateway.gateway import Gateway, now_us
from cloud_backend.gateway.http_problems import Problem, declare
from shared.errors import PeerError
from shared.identity import device_id
from shared.wire.enrolment import (
    KEY_BYTES,
    NAME_CHARACTERS_MAX,
    SIGNATURE_BYTES,
    EnrolmentRequest,
    decode_code,
)


class EnrolmentBody(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    code: str = Field(pattern=r"^[A-Za-z0-9_\-]{22}$", description="from the enrolment link, base64url")
    public_key: str = Field(pattern=r"^[0-9a-f]{64}$", description="the device's Ed25519 key in hexadecimal")
    name: str = Field(max_length=NAME_CHARACTERS_MAX, description="what the operator sees")
    signature: str = Field(
        pattern=r"^[0-9a-f]{128}$",
        description="of 'resurge-enrol-1', code, gateway key and public key, by the device's key",
    )


class EnrolmentAccepted(BaseModel):
    device: str = Field(description="the device's id in hexadecimal: a hash of its key")
    incarnation: int = Field(description="which installation of this device; part of every element's name")


def enrolment_router(gateway: Gateway) -> APIRouter:
    router = APIRouter(tags=["devices"])

    @router.post("/v1/enrol", responses=declare(400, 413, 429), summary="Enrol a device with a single-use code")
    async def enrol(body: EnrolmentBody, request: Request) -> EnrolmentAccepted:
        """Repeating the request with the same key is answered the same way while the code is good."""
        address = request.client.host if request.client else ""
        failures = gateway.enrolment_failures
        if wait_s := failures.wait_s(address, time.monotonic()):
            raise Problem("rate-limited", "too many attempts; come back later", retry_after_s=int(wait_s + 0.999))
        asked = EnrolmentRequest(
            decode_code(body.code), bytes.fromhex(body.public_key), _printable(body.name), bytes.fromhex(body.signature)
        )
        try:
            incarnation = await asyncio.to_thread(_enrol, gateway, asked)
        except PeerError as error:
            failures.take(address, time.monotonic())
            gateway.metrics.refused(error.code)
            raise Problem(error.code, error.message) from None
        return EnrolmentAccepted(device=device_id(asked.public_key).hex(), incarnation=incarnation)

    return router


def _enrol(gateway: Gateway, asked: EnrolmentRequest) -> int:
    lengths = len(asked.public_key), len(asked.signature)
    if lengths != (KEY_BYTES, SIGNATURE_BYTES) or not gateway.keys.verify(
        asked.public_key, asked.signed(gateway.keys.public_key), asked.signature
    ):
        raise PeerError(
            "the request is not signed by the key it wants to enrol, or is meant for another gateway",
            code="enrolment-signature",
        )
    return gateway.roster.enrol(asked.code, asked.public_key, asked.name, now_us())


def _printable(name: str) -> str:
    kept = "".join(character for character in name if character.isprintable()).strip()
    return kept or "unnamed device"
