"""Tables of clients."""

from datetime import UTC, datetime
from fractions import Fraction

import pytest

from unknot.core.errors import ConfigError
from unknot.topology import read_table
from unknot.topology.table import parse


def table(text):
    return parse(text.splitlines(keepends=True))


def test_numbers_are_ids():
    read = table("client,probability\n7,0.1\n3,0.2\n\n5, 3e-1\n")
    assert read.names == {7: 7, 3: 3, 5: 5}
    assert read.probabilities == {7: Fraction(1, 10), 3: Fraction(1, 5), 5: Fraction(3, 10)}
    assert read.total == Fraction(3, 5)
    assert read.expires is None


def test_names_are_kept():
    read = table("client\nUppsala\n7\n")
    assert read.names == {0: "Uppsala", 1: "7"}
    assert read.probabilities is None
    assert read.total == 1


def test_dates_and_numbers_expire():
    read = table("Expires,client\n2027-01-31,1\n2027-01-31T12:00:00+02:00,2\n")
    day = int(datetime(2027, 1, 31, tzinfo=UTC).timestamp())
    assert read.expires == {1: day, 2: day + 10 * 3600}
    assert table("client,expires\n1,3.5\n2,-1\n").expires == {1: Fraction(7, 2), 2: -1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found nothing"),
        ("\n\n", "found nothing"),
        ("client,probability\n", "0 lines"),
        ("0,0.5\n1,0.5\n", "found 0,0.5"),
        ("client,probabilty\n0,1\n", "Did you mean 'probability'"),
        ("client,client\n0,1\n", "found client,client"),
        ("client,probability\n0,0.5\n0,0.5\n", "line 3: client 0 is there already, in .*line 2"),
        ("client,probability\n0,0.5\n00,0.5\n", "line 3: client 0 is there already"),
        ("client,probability\na,1\n,1\n", "line 3: the client has no name"),
        ("client,probability\n0,0.5\n1\n", "line 3: the probability is ''"),
        ("client,probability\n0,0.5\n1,0.5,2\n", "line 3: more cells"),
        ("client,probability\n0,half\n", "line 2: the probability is 'half'"),
        ("client,probability\n0,nan\n", "line 2: the probability is 'nan'"),
        ("client,probability\n0,1\n\n1,-0.5\n", "line 4: the probability is '-0.5'"),
        ("client,probability\n0,1e300\n", "line 2: the probability is '1e300'"),
        ("client,expires\n0,soon\n", "line 2: expires is 'soon'.* 2027-01-31"),
        ("client,expires\n0,1\n1,2027-01-01\n", "numbers and dates"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, words):
    with pytest.raises(ConfigError, match=words):
        table(text)


def test_files(tmp_path):
    path = tmp_path / "clients.csv"
    path.write_bytes("\ufeffclient,probability\r\nGraz,1\r\n".encode())
    assert read_table(path).names == {0: "Graz"}
    path.write_bytes(b"client\n\xff\xfe\n")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_table(path)
    for missing in (tmp_path / "no.csv", tmp_path):
        with pytest.raises(ConfigError, match="cannot read"):
            read_table(missing)
