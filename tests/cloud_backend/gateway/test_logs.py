"""What the process says, as lines a collector can read."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from cloud_backend.gateway.logs import JsonLines, write_logs


def line(**changes) -> dict:
    fields = {"name": "resurge.gateway", "level": logging.ERROR, "pathname": "x", "lineno": 1, "msg": "disk %s",
              "args": ("full",), "exc_info": None} | changes  # fmt: skip
    return json.loads(JsonLines().format(logging.LogRecord(**fields)))


def test_a_line_is_one_json_object_with_time_level_and_message():
    said = line()
    assert (said["level"], said["logger"], said["message"]) == ("error", "resurge.gateway", "disk full")
    assert said["at"].endswith("+00:00")


def test_a_message_of_several_lines_and_a_traceback_stay_one_line():
    try:
        raise ValueError("a\nb")
    except ValueError:
        text = JsonLines().format(logging.LogRecord("x", logging.ERROR, "x", 1, "one\ntwo", (), sys.exc_info()))
    assert "\n" not in text
    assert "ValueError" in json.loads(text)["error"]


@pytest.fixture
def logging_as_it_was():
    root, handlers, level = logging.getLogger(), logging.getLogger().handlers[:], logging.getLogger().level
    ours = logging.getLogger("resurge").level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("resurge").setLevel(ours)


def test_what_people_did_is_told_to_a_collector(logging_as_it_was, capsys):
    write_logs(as_json=True)
    logging.getLogger("resurge.audit").info("ada revoked 01")
    logging.getLogger("other").info("noise")
    [said] = [json.loads(text) for text in capsys.readouterr().err.splitlines()]
    assert said["message"] == "ada revoked 01"
