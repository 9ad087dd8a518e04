"""What the process says, as lines a collector can read."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading

import pytest

from cloud_backend.logging_setup import JsonLines, PlainLines, children_logged, set_up_logging
from tests.patience import wait_until


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
def logging_as_it_was(monkeypatch):
    root, handlers, level = logging.getLogger(), logging.getLogger().handlers[:], logging.getLogger().level
    ours = logging.getLogger("resurge").level
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("resurge").setLevel(ours)


@pytest.fixture
def said(logging_as_it_was, capfd):
    """What was written to standard error, as a collector reads it."""
    return lambda: [json.loads(text) for text in capfd.readouterr().err.splitlines()]


def test_what_people_did_is_told_to_a_collector(said):
    set_up_logging(as_json=True)
    logging.getLogger("resurge.audit").info("ada revoked 01")
    logging.getLogger("other").info("noise")
    assert [each["message"] for each in said()] == ["ada revoked 01"]


def test_people_get_plain_lines_of_what_is_wrong(logging_as_it_was, capsys):
    set_up_logging(as_json=False)
    logging.getLogger("resurge.gateway").warning("cut %d bytes", 7)
    logging.getLogger("resurge.gateway").info("noise")
    assert capsys.readouterr().err == "resurge.gateway: cut 7 bytes\n"


def test_an_exception_that_nobody_caught_is_one_line_also_in_a_thread(said):
    set_up_logging(as_json=True)
    try:
        raise ValueError("a\nb")
    except ValueError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    broken = threading.Thread(target=lambda: {}["missing"])
    broken.start()
    broken.join()
    first, second = said()
    assert (first["level"], first["message"]) == ("critical", "ValueError: a\nb")
    assert "test_logging_setup.py" in first["error"]
    assert second["message"] == "KeyError: 'missing'"


CHILD = """
import sys
print("WARNING: said in words", "", '{"level": "error", "message": "in JSON"}', '["a list"]', sep="\\n", file=sys.stderr)
sys.stderr.buffer.write(b"not text \\xff, and no end of line")
"""


def test_what_a_process_that_was_started_says_is_one_line_each(said):
    set_up_logging(as_json=True)
    with children_logged("resurge.spark"):
        os.write(2, b"said by this process meanwhile\n")
        child = subprocess.Popen([sys.executable, "-c", CHILD])
    lines: list[dict] = []
    child.wait()
    wait_until(lambda: lines.extend(said()) or len(lines) >= 5, "five lines")
    assert sorted(lines[-1]) == ["at", "level", "logger", "message"]
    assert [(each.get("logger"), each["level"], each["message"]) for each in lines] == [
        ("resurge.spark", "warning", "said by this process meanwhile"),
        ("resurge.spark", "warning", "WARNING: said in words"),
        (None, "error", "in JSON"),
        ("resurge.spark", "warning", '["a list"]'),
        ("resurge.spark", "warning", "not text \\xff, and no end of line"),
    ]


def test_standard_error_is_the_own_again_once_the_process_is_started(logging_as_it_was, capfd):
    set_up_logging(as_json=True)
    with children_logged("resurge.spark"):
        pass
    os.write(2, b"raw\n")
    assert capfd.readouterr().err == "raw\n"


@pytest.mark.parametrize("formatter", [JsonLines(), PlainLines("%(name)s: %(message)s")])
def test_what_others_chose_cannot_end_a_line_or_move_the_cursor(formatter):
    hostile = "a\nresurge.gateway: all is well\r\x1b[2J\x9b1A\u202e\x7f\u2028 end"
    try:
        raise ValueError(hostile)
    except ValueError:
        record = logging.LogRecord("resurge", logging.ERROR, "", 0, "device %s", (hostile,), sys.exc_info())
    text = formatter.format(record)
    assert all(line.isprintable() for line in text.split("\n"))
    assert "\nresurge.gateway: all is well" not in text
    assert text.split("\n")[0].count("all is well") >= 1  # told, on its own line
    assert "Ærø" in formatter.format(logging.LogRecord("resurge", logging.ERROR, "", 0, "Ærø", (), None))
