"""What the process says about itself, on standard error: plain lines for people, or JSON lines for a collector.

A JSON line has `at` (UTC, ISO 8601), `level`, `logger` and `message`, and `error` with the traceback if there is one.
Lines hold names and numbers of ours; no request's body, no token and no coordinate is ever logged.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def write_logs(*, as_json: bool) -> None:
    """Send all logging to standard error in this shape; ours from INFO up, everybody else's warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else logging.Formatter("%(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("resurge").setLevel(logging.INFO if as_json else logging.WARNING)
