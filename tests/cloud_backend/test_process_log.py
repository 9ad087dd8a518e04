"""What a process said last is kept, in so many bytes, and without what opens a door."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading

import pytest

from cloud_backend import process_log
from cloud_backend.logging_setup import children_logged, set_up_logging
from cloud_backend.process_log import BEFORE, FILE, KeptLines, Line, keep, newest
from tests.cloud_backend.test_logging_setup import logging_as_it_was as logging_kept
from tests.patience import wait_until

logging_as_it_was = logging_kept


def said(at_us: int, message: str = "cut 7 bytes", **more) -> Line:
    return Line(at_us, more.pop("level", "warning"), "resurge.gateway", 4711, message, **more)


def messages(directory) -> list[str]:
    return [line.message for line in newest(directory)]


def test_lines_come_back_as_they_were_newest_first(tmp_path):
    lines = [said(1), said(2, "Ærø", level="critical", error="Traceback:\n    here\nValueError: 7")]
    for line in lines:
        keep(tmp_path / "home", line)
    assert list(newest(tmp_path / "home")) == lines[::-1]
    assert (tmp_path / "home" / FILE).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700


def test_where_nothing_was_said_there_is_nothing(tmp_path):
    assert list(newest(tmp_path / "nowhere")) == []


def test_the_files_never_hold_more_than_their_bounds_and_the_newest_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(process_log, "BYTES_MAX", 2_000)
    for number in range(100):
        keep(tmp_path, said(number, f"line {number}"))
        assert all((tmp_path / name).stat().st_size <= 2_000 for name in (FILE, BEFORE) if (tmp_path / name).exists())
    kept = messages(tmp_path)
    assert kept == [f"line {99 - index}" for index in range(len(kept))]
    assert len(kept) > 15
    assert sorted(path.name for path in tmp_path.iterdir()) == [BEFORE, FILE]
    assert len(messages(tmp_path)[0]) < process_log.MESSAGE_MAX
    keep(tmp_path, said(100, "a" * 9_000, error="b\n" * 90_000))
    assert (tmp_path / FILE).stat().st_size < 40_000, "a line has a bound of its own"


def test_several_writers_at_once_lose_no_line_that_there_is_room_for(tmp_path, monkeypatch):
    monkeypatch.setattr(process_log, "BYTES_MAX", 12_000)  # 80 lines fit into both files, and nearly all into one

    def write(writer: int) -> None:
        for number in range(20):
            keep(tmp_path, said(number, f"{writer}:{number}"))

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert sorted(messages(tmp_path)) == sorted(f"{writer}:{number}" for writer in range(4) for number in range(20))


def test_while_another_process_holds_the_lock_a_line_is_written_and_nobody_waits(tmp_path, monkeypatch):
    import fcntl

    monkeypatch.setattr(process_log, "BYTES_MAX", 200)
    keep(tmp_path, said(1, "first"))
    with (tmp_path / FILE).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        keep(tmp_path, said(2, "second"))
    assert messages(tmp_path) == ["second", "first"]
    keep(tmp_path, said(3, "third"))
    assert (tmp_path / BEFORE).exists()
    assert messages(tmp_path) == ["third", "second", "first"]


def test_a_torn_line_costs_itself_alone(tmp_path):
    keep(tmp_path, said(1, "before"))
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"at_us": 2, "mess\0\xff')
    keep(tmp_path, said(3, "after"))
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'[1]\n{"at_us": "x"}\n{"at_us": 4, "message": 5}\n\n' + b"[" * 5_000 + b"\n")
        file.write(b'{"at_us": 5, "level": "loud", "message": "of a later version", "host": "a"}\n')
    assert [(line.message, line.level) for line in newest(tmp_path)] == [
        ("of a later version", "warning"), ("after", "warning"), ("before", "warning"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "pair with resurge://192.0.2.7:8750/HUSH?pin=HUSH",
        "open http://127.0.0.1:8750/signin/once/HUSH now",
        "cannot reach postgresql://resurge:HUSH@db.example.org/resurge",
        "Authorization: Bearer HUSH",
        "sent authorization=Basic HUSH to it",
        "password='HUSH' is wrong",
        '{"secret": "HUSH", "token": "HUSH"}',
        "fs.s3a.secret.key=HUSH",
        "RESURGE_KAFKA_PASSWORD=HUSH",
        "Cookie: resurge_session=HUSH",
        "operator_token = HUSH",
    ],
)
def test_what_opens_a_door_is_not_kept(tmp_path, text):
    keep(tmp_path, said(1, text, error=f"Traceback:\n  {text}"))
    assert b"HUSH" not in (tmp_path / FILE).read_bytes()
    assert b"***" in (tmp_path / FILE).read_bytes()


def test_what_is_no_secret_stays(tmp_path):
    text = "resurge.gateway: the token ring at https://example.org:8750/a is wrong [password-changed], key by device"
    keep(tmp_path, said(1, text))
    assert messages(tmp_path) == [text]


def test_what_others_chose_cannot_end_a_line_or_move_a_cursor(tmp_path):
    keep(tmp_path, said(1, "a\nb\x1b[2J\u202e", error="c\r\x9bd\ne"))
    (line,) = newest(tmp_path)
    assert line.message.isprintable()
    assert [part.isprintable() for part in line.error.split("\n")] == [True, True, True]


def test_a_full_disk_stops_nobody(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(process_log.os, "write", full)
    KeptLines(tmp_path).handle(logging.LogRecord("resurge", logging.ERROR, "", 0, "said", (), None))
    assert capsys.readouterr().err == ""


def test_people_read_warnings_and_the_files_have_all_of_ours(logging_as_it_was, tmp_path, capfd):
    set_up_logging(as_json=False, keep=tmp_path)
    logging.getLogger("resurge.gateway").info("listens")
    logging.getLogger("resurge.gateway").warning("cut %d bytes", 7)
    logging.getLogger("other").info("noise")
    try:
        raise ValueError("a\nb")
    except ValueError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    shown = capfd.readouterr().err
    assert shown.startswith("resurge.gateway: cut 7 bytes\nresurge: ValueError: a\\nb\n    Traceback")
    last, *others = newest(tmp_path)
    assert [(line.level, line.message) for line in others] == [("warning", "cut 7 bytes"), ("info", "listens")]
    assert (last.level, last.pid) == ("critical", os.getpid())
    assert "test_process_log.py" in last.error


CHILD = r"""
import sys
print('{"level": "error", "logger": "org.apache.Driver", "message": "in JSON", "error": "java.lang.X\\n\\tat a"}',
      "26/11/19 08:00:00 WARN TaskSetManager: Lost task 0.0: boom", "java.lang.X: boom", "\tat org.apache.A(B.java:1)",
      "\tat org.apache.C(D.java:2)", "Caused by: java.lang.Y", 'Setting default log level to "WARN".', "last", sep="\n", file=sys.stderr)
"""


@pytest.mark.parametrize("as_json", [False, True])
def test_what_a_process_that_was_started_says_is_kept_with_its_level_and_its_trace(
    logging_as_it_was,
    tmp_path,
    capfd,
    as_json,
):
    set_up_logging(as_json=as_json, keep=tmp_path)
    with children_logged("resurge.spark"):
        child = subprocess.Popen([sys.executable, "-c", CHILD])
    child.wait()
    wait_until(lambda: messages(tmp_path)[:1] == ["last"], "the last line")
    found = [(line.logger, line.level, line.message, line.error) for line in reversed(list(newest(tmp_path)))]
    trace = "    at org.apache.A(B.java:1)\n    at org.apache.C(D.java:2)\nCaused by: java.lang.Y"
    assert [
        (logger, level, message, error.replace("        at", "    at")) for logger, level, message, error in found
    ] == [
        ("org.apache.Driver", "error", "in JSON", "java.lang.X\n    at a"),
        ("TaskSetManager", "warning", "Lost task 0.0: boom", ""),
        ("resurge.spark", "warning", "java.lang.X: boom", trace),
        ("resurge.spark", "info", 'Setting default log level to "WARN".', ""),
        ("resurge.spark", "warning", "last", ""),
    ]
    shown = capfd.readouterr().err.splitlines()
    if as_json:
        assert [json.loads(line)["message"] for line in shown][:2] == [
            "in JSON",
            "26/11/19 08:00:00 WARN TaskSetManager: Lost task 0.0: boom",
        ]
    else:
        assert shown[1:4] == [
            "26/11/19 08:00:00 WARN TaskSetManager: Lost task 0.0: boom",
            "java.lang.X: boom",
            "\tat org.apache.A(B.java:1)",
        ]
