"""What a program has left in its folder goes, whatever it is, and nothing else does."""

import os

from everwhen.executor.process import usage
from everwhen.executor.removing import remove

DEPTH = 1_500  # beyond what Python calls itself


def dig(folder, depth, name="d"):
    """Make folders in each other, each with a file, and close some of them."""
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for number in range(depth):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=below))
        if number % 7 == 0:
            os.chmod(name, 0, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_a_folder_of_any_depth_is_removed(tmp_path):
    folder = tmp_path / "attempt"
    folder.mkdir()
    dig(folder, DEPTH)
    (folder / ".removed-0").mkdir()  # a name that is in the way
    (folder / ".removed-0" / "x").mkdir()

    assert remove(folder)
    assert list(tmp_path.iterdir()) == []


def test_what_a_link_leads_to_stays(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "attempt"
    (outside / "kept").mkdir(parents=True)
    (outside / "kept" / "file").write_text("whole")
    (folder / "sub").mkdir(parents=True)
    (folder / "link").symlink_to(outside)
    (folder / "sub" / "link").symlink_to(outside / "kept")
    os.mkfifo(folder / "sub" / "pipe")

    assert remove(folder)
    assert (outside / "kept" / "file").read_text() == "whole"


def test_a_folder_that_is_a_link_is_left_alone(tmp_path):
    outside, link = tmp_path / "outside", tmp_path / "attempt"
    outside.mkdir()
    link.symlink_to(outside)

    assert not remove(link)
    assert outside.is_dir()


def test_what_lies_too_deep_to_be_counted_is_too_much(tmp_path):
    dig(tmp_path, 25, "d" * 200)  # beyond what a path can name

    assert usage.size_of(tmp_path) >= usage.UNCOUNTABLE
    assert remove(tmp_path)


def test_what_is_too_many_to_be_counted_is_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(usage, "MOST_ENTRIES", 5)
    for number in range(6):
        (tmp_path / str(number)).touch()

    assert usage.size_of(tmp_path) >= usage.UNCOUNTABLE
