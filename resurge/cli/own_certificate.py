"""TLS to the gateway on this machine: its own certificate, read from its home, is the only one that counts."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from requests.adapters import HTTPAdapter


class OwnCertificate(HTTPAdapter):
    def __init__(self, certificate: Path) -> None:
        self._context = ssl.create_default_context(cafile=str(certificate))
        # Trust is in this very certificate, which nobody else signed: it need not look like an authority's.
        self._context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        self._context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        # It is reached as 127.0.0.1, whatever name it was made for; urllib3 looks at names by itself, too (below).
        self._context.check_hostname = False
        super().__init__()

    def init_poolmanager(self, *positional: Any, **named: Any) -> Any:
        return super().init_poolmanager(*positional, ssl_context=self._context, assert_hostname=False, **named)
