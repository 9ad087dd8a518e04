"""The only two reasons for which a test may be skipped. Anything else that a test needs, `make setup` installs.

A recording is somebody's data and lies outside the repository; a download needs a network and a server that answers.
A test takes the fixture `outside_recordings` (in `conftest.py`) or calls `skip_download`. `stages.py` fails a stage that
skipped in any other words, whoever runs it. It runs before anything is installed, so pytest is not imported here.
"""

from __future__ import annotations

RECORDINGS = "recordings absent"
DOWNLOAD = "download not reachable"
REASONS = (RECORDINGS, DOWNLOAD)
OTHER_REASON = "failed: skipped for a reason that is none of the two"


def forbidden(messages: list[str]) -> list[str]:
    """Those skips, as pytest reports them, that have neither reason."""
    return [message for message in messages if not message.removeprefix("Skipped: ").startswith(REASONS)]


def skip_download(what: str) -> None:
    """End the test here: this could not be fetched."""
    import pytest

    pytest.skip(f"{DOWNLOAD}: {what}")
