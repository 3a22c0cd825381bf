"""Folders and zips of photographs as people have them: too few, links, formats, doubles, damage."""

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers import output
from PIL import Image

from fewstep import FewstepError, data
from fewstep.data._walk import walk
from fewstep.runs import open_run
from fewstep.tasks.pictures import read_query_images

SIZES = ("--ways", 2, "--shots", 1, "--queries", 2, "--filters", 2, "--blocks", 1, "--image-size", 8, "--steps", 0)


@pytest.fixture(autouse=True)
def remarks(tmp_path, monkeypatch):
    """What is said of the images; no test sees the data of the machine, nor leaves anything there."""
    monkeypatch.setenv("FEWSTEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEWSTEP_DATA", raising=False)
    said = []
    data.on_progress(lambda *told: None, said.append)
    return said


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(value).integers(0, 255, (8, 8, 3), np.uint8)).save(path)


def photos(path, each=4):
    """Two classes for each split, in folders named by it."""
    for number, name in enumerate(f"{part}/{kind}" for part in ("train", "val", "test") for kind in "ab"):
        for image in range(each):
            write(path / name / f"{image}.png", 100 * number + image)
    return path


def zipped(path):
    return Path(shutil.make_archive(str(path), "zip", path))


def load(path, **options):
    data._load._load_all.cache_clear()
    return data.load(f"folder:{path}", "all", size=8, **options)


@pytest.mark.parametrize("kind", ["folder", "zip"])
@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_too_few_images_in_any_split_are_found_before_training(part, kind, tmp_path, capsys):
    path = photos(tmp_path / "photos")
    for image in ("0.png", "1.png"):
        (path / part / "b" / image).unlink()
    path = zipped(path) if kind == "zip" else path
    code, _, error = output(capsys, "train", "mtnet", f"folder:{path}", *SIZES, "--run", tmp_path / "run")
    assert code == 2
    assert "have fewer images than a task takes, 3 (1 shots and 2 queries): " in error
    assert f"'{part}/b' has 2" in error
    assert not (tmp_path / "run").exists()


def test_linked_folders_of_classes_are_followed_and_loops_are_not(tmp_path, remarks):
    path = photos(tmp_path / "photos")
    shutil.move(path / "train" / "b", tmp_path / "elsewhere")
    (path / "train" / "b").symlink_to(tmp_path / "elsewhere")
    (path / "train" / "a" / "loop").symlink_to(path)
    (path / "val" / "a" / "gone.png").symlink_to(tmp_path / "nothing")
    made = load(path)
    assert made.names == ("test/a", "test/b", "train/a", "train/b", "val/a", "val/b")
    assert made.counts.tolist() == [4] * 6
    assert remarks == [
        f"{path}: 1 links lead nowhere and were left out: val/a/gone.png.",
        f"{path}: 1 links lead back to a folder above and were left out: train/a/loop.",
    ]
    write(tmp_path / "elsewhere" / "new.png", 7)  # a change behind a link is seen
    assert load(path).counts.tolist() == [4, 4, 4, 5, 4, 4]


def test_links_between_two_folders_end(tmp_path):
    for here, there in (("a", "b"), ("b", "a")):
        write(tmp_path / "photos" / here / "0.png", 1)
        (tmp_path / "photos" / here / "link").symlink_to(tmp_path / "photos" / there)
    found = walk(tmp_path / "photos")
    assert found.files == ["a/0.png", "a/link/0.png", "b/0.png", "b/link/0.png"]
    assert found.loops == ["a/link/link", "b/link/link"]


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_photographs_of_other_formats_are_counted_and_named(kind, tmp_path, remarks):
    path = photos(tmp_path / "photos")
    for name in ("train/a/1.HEIC", "train/a/2.heic", "train/c/3.heic", "val/b/4.CR2", "test/a/.hidden.heic"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(b"a photograph")
    path = zipped(path) if kind == "zip" else path
    told = (
        f"{path}: 4 photographs were left out, because their format cannot be read: 3 .heic and 1 .cr2, in "
        "train/a (2), train/c (1), val/b (1). Convert them to JPEG or PNG, such as with ImageMagick: magick mogrify "
        "-format jpg FOLDER/*.heic"
    )
    assert load(path).names == ("test/a", "test/b", "train/a", "train/b", "val/a", "val/b")
    assert remarks == [told]
    load(path)  # from the prepared copy
    assert remarks == [told, told]


def test_a_folder_of_nothing_but_other_formats_says_so(tmp_path, capsys):
    for name in ("a/1.heic", "b/2.avif"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"a photograph")
    code, _, error = output(capsys, "train", "mtnet", f"folder:{tmp_path}", "--run", tmp_path / "run")
    assert code == 2
    assert "2 photographs were left out, because their format cannot be read: 1 .heic and 1 .avif" in error


def test_two_classes_of_the_same_images_are_named(tmp_path, remarks):
    path = photos(tmp_path / "photos")
    for image in range(4):  # other names, another order
        shutil.copy(path / "train" / "a" / f"{image}.png", path / "train" / "b" / f"{3 - image}.png")
    load(path)
    assert remarks == [
        f"{path}: classes hold the same images, which no method can tell apart: 'train/a' and 'train/b'. Keep one."
    ]


def damage(path, names):
    for name in names:
        (path / name).write_bytes((path / name).read_bytes()[:60])


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_damaged_images_stop_a_training_unless_they_are_to_be_skipped(kind, tmp_path, capsys):
    path = photos(tmp_path / "photos", 9)
    damage(path, [f"train/a/{image}.png" for image in range(6)])
    path = zipped(path) if kind == "zip" else path
    train = ("train", "prototypes", f"folder:{path}", *SIZES, "--no-report", "--run", tmp_path / "run")
    code, _, error = output(capsys, *train)
    assert code == 2
    assert "train/a/0.png is damaged" in error
    assert "To leave out every image that cannot be read: --skip-bad" in error
    code, _, error = output(capsys, *train, "--skip-bad")
    assert code == 0, error
    assert (
        f"{path}: 6 of 54 images cannot be read and were left out: train/a/0.png, train/a/1.png, train/a/2.png, "
        "train/a/3.png, train/a/4.png and 1 more." in error.splitlines()
    )
    assert open_run(tmp_path / "run").experiment.skip_bad


def test_a_class_without_a_whole_image_is_named(tmp_path):
    path = photos(tmp_path / "photos")
    damage(path, [f"test/b/{image}.png" for image in range(4)])
    with pytest.raises(FewstepError, match=r"no image of the class 'test/b' can be read\. Remove its folder\."):
        load(path, skip_bad=True)


def test_a_damaged_member_of_a_zip_can_be_skipped(tmp_path, remarks):
    path = zipped(photos(tmp_path / "photos"))
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("val/a/2.png").header_offset + 60
    content = bytearray(path.read_bytes())
    content[place] ^= 255
    path.write_bytes(content)
    with pytest.raises(FewstepError, match=r"val/a/2\.png is damaged"):
        load(path)
    assert load(path, skip_bad=True).counts.tolist() == [4, 4, 4, 4, 3, 4]
    assert remarks == [f"{path}: 1 of 24 images cannot be read and were left out: val/a/2.png."]


def test_skip_bad_is_for_folders(capsys, tmp_path):
    for tasks in ("omniglot", "sinusoid"):
        code, _, error = output(capsys, "train", "mtnet", tasks, "--skip-bad", "--run", tmp_path / "run")
        assert code == 2
        assert "--skip-bad does not apply" in error


def test_a_folder_of_queries_follows_links_and_names_other_formats(tmp_path, remarks):
    write(tmp_path / "elsewhere" / "0.png", 1)
    write(tmp_path / "asked" / "1.png", 2)
    (tmp_path / "asked" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "asked" / "2.heic").write_bytes(b"a photograph")
    found = read_query_images(tmp_path / "asked", (8, 8, 3), invert=False)
    assert [Path(name).name for name in found.names] == ["1.png", "0.png"]
    assert "1 photographs were left out, because their format cannot be read: 1 .heic, in . (1)." in remarks[0]
