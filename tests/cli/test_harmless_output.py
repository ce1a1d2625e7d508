"""What others wrote reaches the terminal as text: nothing of it steers the terminal."""

import io
from contextlib import suppress
from importlib import import_module

import pytest
from rich.table import Table
from rich.text import Text

from unknot.cli import screen
from unknot.core.errors import StoreError

shared = import_module("unknot.cli.app")
EVIL = "a\x1b[31mb\x07c\x9bd\re\u202ef\x7fg"


@pytest.fixture
def shown(monkeypatch):
    """What a person is told beside the result."""
    stream = io.StringIO()
    monkeypatch.setattr(screen, "side", lambda quiet=False: made(stream))
    monkeypatch.setattr(shared, "side", lambda quiet=False: made(stream))
    return stream


def made(stream):
    return screen.Screen(file=stream, width=300)


def clean(text):
    return all(letter.isprintable() or letter == "\n" for letter in text)


def stopped():
    with shared.errors_for_people(lambda: EVIL):
        raise KeyboardInterrupt


def failed():
    with shared.errors_for_people():
        raise StoreError(f"there is no {EVIL}\nof ours")


def no_file():
    with shared.errors_for_people():
        raise FileNotFoundError(2, "nothing there", EVIL)


@pytest.mark.parametrize("tell", [stopped, failed, no_file, lambda: screen.warn(EVIL)])
def test_messages_have_no_control_characters(shown, tell):
    with suppress(shared.typer.Exit):
        tell()
    text = shown.getvalue()
    assert clean(text)
    assert "\\x1b[31m" in text
    assert ("\nof ours" in text) == (tell is failed)


def test_neither_have_tables_and_lists():
    stream = io.StringIO()
    table = Table("one")
    table.add_row(Text(EVIL))
    made(stream).print(table)
    made(stream).print(EVIL)
    assert clean(stream.getvalue())


def test_what_the_console_itself_does_to_a_terminal_stays():
    stream = io.StringIO()
    console = screen.Screen(file=stream, width=80, force_terminal=True, color_system="standard")
    console.print(Text("red", style="red"))
    console.clear()
    assert "\x1b[31mred" in stream.getvalue()
    assert "\x1b[2J" in stream.getvalue()


def test_ordinary_text_of_any_language_is_as_it_was():
    assert screen.harmless("Bärenklinik 東京\u00a0№ 7\nnext") == "Bärenklinik 東京\u00a0№ 7\nnext"
