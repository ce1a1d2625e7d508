import os

from unknot.core.places import folders, located


def test_a_path_is_looked_for_here_then_near_then_in_the_data_folders(tmp_path, monkeypatch):
    here, near, first, second = (tmp_path / name for name in ("here", "near", "first", "second"))
    for folder in (here, near, first, second):
        folder.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("UNKNOT_DATA", os.pathsep.join(map(str, (first, second))))
    assert folders() == (first, second)
    assert str(located("lm/gpt2")) == "lm/gpt2"  # nowhere: as it was given
    for folder in (second, first, near):
        (folder / "lm" / "gpt2").mkdir(parents=True)
        assert located("lm/gpt2", near) == folder / "lm" / "gpt2"
    (here / "lm" / "gpt2").mkdir(parents=True)
    assert str(located("lm/gpt2", near)) == "lm/gpt2"
    assert located(first / "lm") == first / "lm"
