"""What a store asks of a file system, the same of every implementation: here, and of Hadoop in tests/spark."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cloud_backend.spark.storage.files import Files, files_at, is_uri
from cloud_backend.spark.storage.hadoop import way_to_put
from shared.errors import UsageError


def demand_a_file_system(files: Files) -> None:
    files.create(("a", "b"))
    files.write("a/one", b"1" * 100_000, durable=True)
    assert files.read("a/one") == b"1" * 100_000
    files.replace("b/note", b"first", durable=True)
    files.replace("b/note", b"second")
    assert files.read("b/note") == b"second"
    with files.opened("a/one") as (read, size):
        assert (size, read(3, 99_998), read(3, 100_000)) == (100_000, b"11", b"")
    with pytest.raises(FileNotFoundError):
        files.read("a/none")
    with pytest.raises(FileNotFoundError), files.opened("a/none"):
        pass
    assert files.put("a/entry", b"mine")
    assert not files.put("a/entry", b"yours")
    assert files.read("a/entry") == b"mine"
    assert files.names("a") == ["entry", "one"]
    assert files.names("nowhere") == []
    files.remove("a/one")
    files.remove("a/one")
    files.sync("a")
    assert files.names("a") == ["entry"]


def demand_one_winner(first: Files, second: Files, rounds: int) -> None:
    """Two writers put the same names at once; each name goes to exactly one, whole."""
    first.create(("race",))
    won: dict[str, list[int]] = {"x": [], "y": []}
    barrier = threading.Barrier(2)

    def write(files: Files, letter: str) -> None:
        for number in range(rounds):
            barrier.wait()
            if files.put(f"race/{number}", letter.encode() * 2000):
                won[letter].append(number)

    threads = [threading.Thread(target=write, args=each) for each in ((first, "x"), (second, "y"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won["x"] + won["y"]) == list(range(rounds))
    for letter, numbers in won.items():
        assert all(first.read(f"race/{number}") == letter.encode() * 2000 for number in numbers)
    assert all(name.isdigit() for name in first.names("race"))


def test_a_directory_is_a_file_system(tmp_path: Path) -> None:
    demand_a_file_system(files_at(tmp_path))


def test_of_two_writers_in_a_directory_one_wins(tmp_path: Path) -> None:
    demand_one_winner(files_at(tmp_path), files_at(tmp_path), 200)


CALLS = ("open", "write", "fdatasync", "link", "unlink", "fsync")


def test_a_put_killed_at_any_call_leaves_nothing_or_the_whole_file(tmp_path: Path) -> None:
    """In a process of its own that ends at that call, before it or after it: nothing is cleaned up."""
    content = b"x" * 5000
    ends = []
    for call in range(100):
        (tmp_path / str(call)).mkdir()
        child = os.fork()
        if child == 0:
            _die_at(call)
            os._exit(0 if files_at(tmp_path / str(call)).put("entry", content) else 2)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        files = files_at(tmp_path / str(call))
        ends.append(files.names("."))
        assert ends[-1] in ([], ["entry"])
        assert ends[-1] == [] or files.read("entry") == content
        if ended == 0:
            break
        assert ended == 9
        assert files.put("entry", content) == (ends[-1] == [])  # the next one finds its number free, or taken
    assert ends[0] == []
    assert ends[-1] == ["entry"]
    assert len(ends) >= 12


def _die_at(call: int) -> None:
    seen = 0

    def mortal(original: Callable[..., object]) -> Callable[..., object]:
        def called(*arguments: object, **named: object) -> object:
            nonlocal seen
            here, seen = seen, seen + 2
            if here == call:
                os._exit(9)
            if here + 1 == call and original is real["write"]:
                arguments = (arguments[0], bytes(arguments[1])[:7])  # type: ignore[call-overload]
            answer = original(*arguments, **named)
            if here + 1 == call:
                os._exit(9)
            return answer

        return called

    real = {name: getattr(os, name) for name in CALLS}
    for name in CALLS:
        setattr(os, name, mortal(real[name]))


def test_a_put_is_durable_before_it_has_a_name_and_its_name_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a power cut leaves is decided by the order: content, then name, then the directory."""
    files = files_at(tmp_path)
    said: list[str] = []

    def noted(name: str, original: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            said.append(name)
            return original(*arguments)

        return call

    for name in ("write", "fdatasync", "link", "fsync"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    assert files.put("entry", b"x")
    assert said == ["write", "fdatasync", "link", "fsync"]


def test_only_what_is_unwanted_is_set_aside(tmp_path: Path) -> None:
    files = files_at(tmp_path)
    files.put("entry", b"half")
    assert not files.set_aside("none", "away", lambda _: True)
    assert not files.set_aside("entry", "away", lambda data: data != b"half")
    assert files.set_aside("entry", "away", lambda data: data == b"half")
    assert (files.names("."), files.read("away")) == (["away"], b"half")


def test_only_a_location_with_a_scheme_is_hadoop_s() -> None:
    assert is_uri("hdfs://nn:8020/store")
    assert is_uri("file:/store")
    assert not is_uri("/store")
    assert not is_uri("store")
    assert not is_uri("a:b/c")  # one letter is a drive, not a scheme


def test_a_file_system_without_put_if_absent_is_refused() -> None:
    assert way_to_put("s3a://bucket/store", "s3a", conditional=True) == "condition"
    assert way_to_put("hdfs://nn/store", "hdfs", conditional=False) == "rename"
    assert way_to_put("file:/store", "file", conditional=False) == "link"
    with pytest.raises(UsageError, match=r"'s3a' cannot put a file only if it is absent.*\[store-put-if-absent\]"):
        way_to_put("s3a://bucket/store", "s3a", conditional=False)
