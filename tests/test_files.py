"""Files that are written whole or not at all, and the one format of saved models."""

from pathlib import Path

import numpy as np
import pytest

from fewstep import FewstepError
from fewstep.files import cache, new_file, read_archive, write_archive

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "deep/b": np.array(["x", "yz"]), "scalar": np.float32(3) * np.ones(())}
ABOUT = {"name": "one", "list": [1, None, 0.5]}


@pytest.mark.parametrize("compressed", [False, True])
def test_an_archive_gives_back_what_it_got(tmp_path, compressed):
    path = write_archive(tmp_path / "deep" / "model", "net", 3, ABOUT, ARRAYS, compressed=compressed)
    assert path == tmp_path / "deep" / "model.npz"
    for given in (path, tmp_path / "deep" / "model"):
        about, arrays = read_archive(given, "net", 3)
        assert about == ABOUT
        assert arrays.keys() == ARRAYS.keys()
        assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)
        assert all(arrays[name].dtype == ARRAYS[name].dtype for name in ARRAYS)
    assert [file.name for file in path.parent.iterdir()] == ["model.npz"]


def test_every_flipped_bit_of_an_array_is_seen(tmp_path):
    path = write_archive(tmp_path / "model.npz", "net", 1, ABOUT, ARRAYS)
    with np.load(path) as file:
        members = {name: file[name] for name in file.files}
    members["a"][1, 2] += 1
    np.savez(path, **members)
    with pytest.raises(FewstepError, match=r"model.npz is damaged: .*checksum. Fit it again."):
        read_archive(path, "net", 1, "Fit it again.")


@pytest.mark.parametrize(
    ("kind", "version", "message"),
    [
        ("tree", 1, "holds a net, not a tree"),
        ("net", 1, "saved by a newer version of fewstep: update fewstep. Save it again."),
        ("net", 3, "has format 2 and this version reads format 3.*older version"),
    ],
)
def test_another_kind_or_version_is_refused(tmp_path, kind, version, message):
    path = write_archive(tmp_path / "model.npz", "net", 2, ABOUT, ARRAYS)
    with pytest.raises(FewstepError, match=message):
        read_archive(path, kind, version)


def test_what_is_no_archive_is_refused(tmp_path):
    with pytest.raises(FewstepError, match=r"There is no file .*none. Give the path of a saved net"):
        read_archive(tmp_path / "none", "net", 1)
    (tmp_path / "text.npz").write_text("text")
    np.savez(tmp_path / "foreign.npz", x=np.ones(2))
    np.save(tmp_path / "array.npz", np.ones(2))
    whole = write_archive(tmp_path / "short.npz", "net", 1, ABOUT, ARRAYS)
    whole.write_bytes(whole.read_bytes()[:-100])
    for path in [*tmp_path.glob("*.npz"), *tmp_path.glob("*.npy")]:
        with pytest.raises(FewstepError, match="is damaged, or is not a saved net"):
            read_archive(path, "net", 1)


def test_objects_are_not_saved(tmp_path):
    with pytest.raises(TypeError, match="'a' is of type object"):
        write_archive(tmp_path / "model.npz", "net", 1, {}, {"a": np.array([{}], object)})
    assert not list(tmp_path.iterdir())


def test_what_goes_wrong_leaves_the_older_file(tmp_path):
    path = tmp_path / "file.json"
    path.write_text("old")

    def write():
        with new_file(path) as file:
            file.write(b"new")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        write()
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["file.json"]


def test_the_cache_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.delenv("FEWSTEP_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache() == tmp_path / "fewstep"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache() == Path.home() / ".cache" / "fewstep"
    monkeypatch.setenv("FEWSTEP_CACHE", "~/elsewhere")
    assert cache() == Path.home() / "elsewhere"
