"""What is read off Chromium's record of its network, and off what it says: a small log of each."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "screenshots.py"
NET = """{"constants": {"logEventTypes": {"URL_REQUEST_START_JOB": 2}},
"events": [
{"params":{"initiator":"file://","url":"file:///site/index.html"},"phase":1,"type":2},
{"params":{"initiator":"not an origin","url":"https://clients2.google.com/time"},"phase":1,"type":2},
{"params":{"initiator":"file://","url":"https://fonts.example/a.css"},"phase":1,"type":2},
{"params":{"initiator":"file://","url":"https://fonts.example/a.css"},"phase":1,"type":2},
{"params":{"initiator":"null","url":"data:image/png;base64,AA"},"phase":1,"type":2},
{"params":{"net_error":-105},"phase":2,"type":2}
]}
"""
SAID = """[1:2:1116/07:00:00.0:ERROR:bus.cc(408)] Failed to connect to the bus
[1:2:1116/07:00:00.1:INFO:CONSOLE(1)] "Refused to load the script 'https://x.example/a.js'", source: a (1)
[1:2:1116/07:00:00.2:INFO:CONSOLE(3)] "all is well", source: a (3)
123 bytes written to file a.png
"""


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("screenshots", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_what_a_page_asks_of_the_network_is_found_once_and_the_browser_s_own_is_not(script):
    assert script.requests_in(NET) == ("https://fonts.example/a.css",)
    assert script.requests_in("") == ()


def test_errors_on_the_console_are_a_page_s_and_other_words_are_not(script):
    (error,) = script.errors_in(SAID)
    assert error.startswith("\"Refused to load the script 'https://x.example/a.js'")


@pytest.mark.parametrize(
    "text",
    [
        '<link rel="preconnect" href="https://x.example">',
        "<link href=//x.example rel=dns-prefetch>",
        "<link rel='stylesheet' href='//x.example/a.css'>",
        '<img alt="" src="//x.example/a.png">',
        '<script src="http://x.example/a.js"></script>',
        '<link rel="preconnect" href="/local">',
        "<style>@import 'a.css'</style>",
        "<style>a { background: url(//x.example/a.png) }</style>",
    ],
)
def test_what_a_page_would_ask_for_is_found_in_its_text(script, text):
    assert script.asks_in(f"<p>first</p>\n{text}") != ()


def test_a_link_that_is_only_followed_asks_for_nothing(script):
    text = '<a href="https://x.example">x</a> <a href="//x.example">x</a> <link rel="icon" href="a.svg">'
    assert script.asks_in(text) == ()
