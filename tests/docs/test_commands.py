"""Every command on every page exists, with its verb and its options; every block of commands is run by some test."""

from __future__ import annotations

import importlib
import re
import shlex
from itertools import pairwise

import pytest
import typer

from cloud_backend.gateway.__main__ import parse
from cloud_backend.spark.job import _options
from mobile_app.sensors.choose import parse_choices
from mobile_app.sensors.synthetic import SENSORS as SYNTHETIC
from resurge.cli import NOUNS
from tests.docs.pages import COMMAND, ROOT, blocks, mentioned
from tests.processes.newcomer import answer_of, sign_of

PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))]
FOLLOWED = {  # tests/processes/test_pages.py types what they say
    "README.md", "docs/tutorial.md", "docs/termux.md", "docs/operations.md", "docs/trips.md", "docs/fleet.md",
    "docs/heart.md",
}  # fmt: skip
REASONS = {
    "it is the test", "needs a phone", "takes minutes of a quiet machine", "needs several machines",
    "needs a job that went wrong", "needs Android's SDK", "needs a record that is not part of the repository",
    "only shows the arguments",
}  # fmt: skip
PLACEHOLDER = re.compile(r"[A-Z]+|\S*\|\S*|…")


def told(page: str) -> list[tuple[int, str]]:
    fenced = [(block.line, command) for block in blocks(page) for command in block.commands]
    return [each for each in [*fenced, *mentioned(page)] if COMMAND.match(each[1])]


def words_of(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def missing(command: str) -> str:
    """What the command line does not know of this command; empty when all is there."""
    words = words_of(command)
    if words[0] != "resurge":
        return ""
    rest = words[1:]
    if not rest or PLACEHOLDER.fullmatch(rest[0]) or rest[0].startswith("-"):
        return ""
    if rest[0] not in NOUNS:
        return f"noun {rest[0]}"
    found = typer.main.get_command(importlib.import_module(f"resurge.cli.{rest[0]}").app)
    rest = rest[1:]
    if hasattr(found, "commands"):
        if not rest or PLACEHOLDER.fullmatch(rest[0]) or rest[0].startswith("-"):
            return ""
        verbs = rest[0].split("/")
        if any(verb not in found.commands for verb in verbs):
            return f"verb {rest[0]}"
        found, rest = found.commands[verbs[0]], rest[1:]
    asked = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)} - {"--help"}
    unknown = asked - {name for each in found.params for name in (*each.opts, *each.secondary_opts)}
    return f"options {sorted(unknown)}" if unknown else ""


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_exists(page):
    wrong = [f"{page}:{line}: {command}: {what}" for line, command in told(page) if (what := missing(command))]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES)
def test_the_programs_take_the_options_that_pages_give_them(page):
    for _, command in told(page):
        words = words_of(command)
        if words[:3] == ["python", "-m", "cloud_backend.gateway"] and len(words) > 3:
            parse(words[3:])
        elif words[:3] == ["python", "-m", "cloud_backend.spark.job"] and len(words) > 3:
            _options(words[3:])


@pytest.mark.parametrize("page", PAGES)
def test_commands_stand_in_blocks_that_are_run_or_say_why_not(page):
    for block in blocks(page):
        place = f"{page}:{block.line}"
        if block.language != "sh":
            assert not any(COMMAND.match(line) for line in block.text.splitlines()), f"{place} should be a sh block"
        elif block.marker.startswith("not run: "):
            assert block.marker.removeprefix("not run: ") in REASONS, place
        elif block.marker:
            for test in block.marker.removeprefix("run by ").split(", "):
                text = (ROOT / test).read_text(encoding="utf-8")
                given = {word for command in block.commands for word in words_of(command) if word.startswith("--")}
                typed = any(f'"{noun}", "{verb}"' in text for command in block.commands
                            for _, noun, verb, *_ in [[*words_of(command), "", ""]])  # fmt: skip
                begun = given & {"--master", "--standby", "--local", "--database"}
                assert typed or (begun and any(option in text or option[2:] in text for option in given)), place
        elif page not in FOLLOWED:
            assert not any(COMMAND.match(command) for command in block.commands), f"{place} is run by no test"


@pytest.mark.parametrize("page", sorted(FOLLOWED))
def test_whoever_follows_a_page_knows_what_each_of_its_commands_answers(page):
    typed = [
        command for block in blocks(page) if block.language == "sh" and not block.marker for command in block.commands
    ]
    assert typed
    unknown = [command for command in typed if not sign_of(command) and answer_of(command) is None]
    assert unknown == []


@pytest.mark.parametrize("page", PAGES)
def test_the_sensors_that_commands_name_can_be_had(page):
    for line, command in told(page):
        words = words_of(command)
        given = [word for option, word in pairwise(words) if option == "--sensor" and not PLACEHOLDER.fullmatch(word)]
        for sensor, choice in parse_choices(word for word in given if "NAME" not in word).items():
            assert choice.kind != "synthetic" or sensor in SYNTHETIC, f"{page}:{line}: nothing makes {sensor} up"


def test_a_command_that_is_not_there_is_found():
    assert missing("resurge device pear --home X") == "verb pear"
    assert missing("resurge device pair --hots X") == "options ['--hots']"
    assert missing("resurge devices") == "noun devices"
    assert missing("resurge NOUN VERB") == ""
