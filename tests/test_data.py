"""Images from their home, from files a user has, from folders; and everything that can be wrong with them."""

import hashlib
import http.server
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from typing import ClassVar

import numpy as np
import pytest
from helpers import DATA, needs_omniglot, output
from PIL import Image

from fewstep import FewstepError, data
from fewstep.cli import _show
from fewstep.data import _catalog, _download, _places
from fewstep.data._set import splits
from fewstep.data.cifar import cifar_splits, read_cifar
from fewstep.data.folder import folder_classes
from fewstep.data.omniglot import omniglot_splits, read_omniglot
from fewstep.files import cache

CONTENT = bytes(range(256)) * 2000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """No test sees the data of the machine, nor leaves anything there."""
    monkeypatch.setenv("FEWSTEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEWSTEP_DATA", raising=False)
    yield tmp_path / "cache"
    data.look_in(None)


def picture(size=(6, 6), mode="L", value=100, kind="PNG"):
    file = io.BytesIO()
    Image.new(mode, size, value if mode == "L" else (value,) * len(mode)).save(file, kind)
    return file.getvalue()


def folder_of(path, classes=12, each=4, **options):
    for number in range(classes):
        (path / f"class{number:02d}").mkdir(parents=True)
        for image in range(each):
            (path / f"class{number:02d}" / f"{image}.png").write_bytes(picture(value=10 * number + image, **options))
    return path


class Home(http.server.BaseHTTPRequestHandler):
    """A server that can break off, send other bytes, redirect, and know of ranges or not."""

    ways: ClassVar[list[str]] = []
    requests: ClassVar[list[str]] = []
    ranges: ClassVar[list[str | None]] = []
    lengths: ClassVar[list[int]] = []  # what was sent

    def do_GET(self):
        Home.requests.append(self.path)
        Home.ranges.append(self.headers["Range"])
        way = Home.ways.pop(0) if Home.ways else ""
        if way.startswith("to "):
            self.send_response(302)
            self.send_header("Location", way[3:])
            self.end_headers()
            return
        if way.isdigit():
            self.send_error(int(way))
            return
        content = CONTENT[:-1] + b"!" if way == "wrong" else CONTENT
        first = int(self.headers["Range"][6:-1]) if self.headers["Range"] and way != "no ranges" else 0
        sent = content[first : first + 200_000] if way == "break" else content[first:]
        Home.lengths.append(len(sent))
        self.send_response(206 if first else 200)
        if first:
            place = {"shifted": f"bytes {first + 1}-", "nowhere": "bytes ?"}.get(way, f"bytes {first}-")
            self.send_header("Content-Range", f"{place}{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *args):
        pass


@pytest.fixture
def home(monkeypatch):
    for notes in (Home.ways, Home.requests, Home.ranges, Home.lengths):
        notes.clear()
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)  # what it waits before the next try
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Home) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def fetch(home, target):
    return _download.download(f"{home}/file", target, SHA256)


def files(folder):
    return [path.name for path in folder.iterdir() if path.name != ".lock" and path.is_file()]


def test_a_whole_download_is_checked_and_not_done_twice(home, tmp_path, capfd):
    assert fetch(home, tmp_path / "deep" / "file").read_bytes() == CONTENT
    fetch(home, tmp_path / "deep" / "file")
    assert len(Home.requests) == 1
    (tmp_path / "deep" / "file").write_bytes(CONTENT[:-5])  # damaged on the disk
    assert fetch(home, tmp_path / "deep" / "file").read_bytes() == CONTENT
    assert len(Home.requests) == 2
    assert "file: " not in capfd.readouterr().err.replace("downloading file: ", "")  # progress is ours


def test_progress_is_passed_on(home, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setitem(_places._hooks, "progress", lambda *step: seen.append(step))
    fetch(home, tmp_path / "file")
    assert {(what, total, unit) for what, _, total, unit in seen} == {("downloading file", len(CONTENT) / 1e6, "MB")}
    done = [step[1] for step in seen]
    assert done == sorted(done)
    assert done[-1] == len(CONTENT) / 1e6


def test_a_download_that_breaks_off_is_tried_again(home, tmp_path):
    Home.ways[:] = ["break", "503"]
    assert fetch(home, tmp_path / "file").read_bytes() == CONTENT
    assert len(Home.requests) == 3
    assert files(tmp_path) == ["file"]


def test_a_download_that_fails_every_time_leaves_nothing(home, tmp_path):
    Home.ways[:] = ["404"] * 3
    with pytest.raises(
        FewstepError, match=f"Cannot download {home}/file: the server answered 404. Try again later, or"
    ):
        fetch(home, tmp_path / "file")
    assert files(tmp_path) == []


def test_a_download_resumes_where_it_broke_off(home, tmp_path):
    """In the next try, and in another process: all bytes but a few travel once."""
    Home.ways[:] = ["break", "503", "503"]
    with pytest.raises(FewstepError, match=r"answered 503. Try again later for the rest after 0\.2 MB, or"):
        fetch(home, tmp_path / "file")
    assert files(tmp_path) == ["file.part"]
    held = (tmp_path / "file.part").stat().st_size
    Home.ways[:] = ["break"]
    assert fetch(home, tmp_path / "file").read_bytes() == CONTENT
    assert files(tmp_path) == ["file"]
    assert Home.ranges[:4] == [None, *[f"bytes={held - 1}-"] * 3]
    assert sum(Home.lengths) <= len(CONTENT) + 2 * (_download._BLOCK + 1)


@pytest.mark.parametrize("way", ["no ranges", "shifted", "nowhere", "416"])
def test_a_server_that_sends_another_rest_is_asked_for_the_whole(home, tmp_path, way):
    (tmp_path / "file.part").write_bytes(CONTENT[:300_000])
    Home.ways[:] = [way]
    assert fetch(home, tmp_path / "file").read_bytes() == CONTENT
    assert Home.lengths[-1] == len(CONTENT)
    assert files(tmp_path) == ["file"]


@pytest.mark.parametrize("part", [CONTENT, b"x" * 1000, b""])
def test_what_had_arrived_may_be_all_of_it_or_wrong(home, tmp_path, part):
    """Wrong bytes are found by the checksum; the next try takes the whole."""
    (tmp_path / "file.part").write_bytes(part)
    assert fetch(home, tmp_path / "file").read_bytes() == CONTENT
    assert sum(Home.lengths) <= (1 if part == CONTENT else 2 * len(CONTENT))
    assert files(tmp_path) == ["file"]


def test_other_bytes_are_not_taken(home, tmp_path):
    Home.ways[:] = ["wrong"] * 3
    with pytest.raises(FewstepError, match=f"other bytes.*expected sha256:{SHA256} but got"):
        fetch(home, tmp_path / "file")
    assert files(tmp_path) == []
    assert fetch(home, tmp_path / "file").read_bytes() == CONTENT


def test_redirects_are_followed_to_the_web_only(home, tmp_path):
    Home.ways[:] = ["to /elsewhere"]
    assert fetch(home, tmp_path / "file").read_bytes() == CONTENT
    assert Home.requests[-1] == "/elsewhere"
    Home.ways[:] = ["to file:///etc/passwd"] * 4
    with pytest.raises(FewstepError, match="Cannot download"):
        fetch(home, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_server_that_is_not_there_is_said(home, tmp_path):
    with pytest.raises(FewstepError, match=r"Cannot download http://127\.0\.0\.1:9/file: Connection refused\. Try"):
        fetch("http://127.0.0.1:9", tmp_path / "file")


def test_data_get_downloads_to_the_cache(home, places, capsys, monkeypatch):
    archive = _catalog.Archive("cifar-100-binary.tar.gz", home, SHA256, 1)
    known = data.SOURCES["cifar100"]._replace(files=(archive,))
    monkeypatch.setitem(data.SOURCES, "cifar100", known)
    code, out, _ = output(capsys, "data", "get", "cifar100")
    assert (code, out.strip()) == (0, str(places / "cifar100" / archive.name))
    code, out, _ = output(capsys, "data", "check", "cifar100", "--json")
    assert (code, json.loads(out)["files"][0]["state"]) == (0, "whole")
    (places / "cifar100" / archive.name).write_bytes(CONTENT[:-5])
    code, out, err = output(capsys, "data", "check", "cifar100")
    assert code == 2
    assert "damaged" in out
    assert "get it again" in err


def test_a_disk_that_is_full_while_downloading_or_caching_is_said(home, tmp_path):
    folder_of(tmp_path / "images")
    code = (
        "import resource, sys; from pathlib import Path; from fewstep import data\n"
        "from fewstep.data._download import download\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))\n"
        "data.on_progress(lambda *told: None, print)\n"
        f"print(data.load('folder:{tmp_path}/images', 'all', size=6).images.shape)\n"
        f"try: download('{home}/file', Path('{tmp_path}/file'), '{SHA256}')\n"
        "except data._load.FewstepError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    kept, shape, refused = done.stdout.strip().splitlines()
    assert kept.startswith("The prepared images are not kept")
    assert shape == "(48, 6, 6, 3)"
    assert refused.startswith("Cannot write")
    assert not list((tmp_path / "cache").rglob("*.new"))


def test_the_lists_and_what_cannot_be_had(capsys, tmp_path):
    code, out, _ = output(capsys, "data", "list", "--json")
    rows = {row["name"]: row for row in json.loads(out)["sets"]}
    assert code == 0
    assert rows["cifar100"]["tasks"] == ["cifar-fs", "fc100"]
    assert rows["omniglot"]["here"] is None
    assert output(capsys, "data", "list")[0] == 0
    code, _, err = output(capsys, "data", "get", "miniimagenet")
    assert code == 2
    assert "cannot be downloaded freely" in err
    assert "--images FOLDER" in err
    assert output(capsys, "data", "get")[0] == 2
    assert "Did you mean 'omniglot'" in output(capsys, "data", "get", "omniglod")[2]
    assert output(capsys, "data", "path")[1].split() == [str(cache())]
    assert output(capsys, "data", "path", "--data-dir", tmp_path)[1].split() == [str(tmp_path), str(cache())]
    assert "not a folder" in output(capsys, "data", "path", "--data-dir", tmp_path / "none")[2]


def test_fixed_splits_are_disjoint_and_of_their_sizes():
    for tasks, sizes in (("cifar-fs", (64, 16, 20)), ("fc100", (60, 20, 20))):
        parts = cifar_splits(tasks)
        assert tuple(len(parts[part]) for part in ("train", "validation", "test")) == sizes
        assert len({name for part in parts.values() for name in part}) == 100
    groups = splits()["cifar100"].values()
    parts = {part: set(names) for part, names in cifar_splits("fc100").items()}
    assert all(any(set(group) <= part for part in parts.values()) for group in groups)


@needs_omniglot
def test_the_real_omniglot():
    data.look_in(DATA)
    parts = {part: data.load("omniglot", part, size=7) for part in ("train", "validation", "test")}
    assert [len(some.names) for some in parts.values()] == [1028, 172, 423]
    assert all((some.counts == 20).all() for some in parts.values())
    whole = [name for some in parts.values() for name in some.names]
    assert len(set(whole)) == 1623
    assert parts["train"].images.mean() > 200  # paper is bright
    drawn = omniglot_splits(tuple(sorted(whole)), "maml")
    assert [len(some) for some in drawn.values()] == [1100, 100, 423]
    assert omniglot_splits(tuple(sorted(whole)), "maml") == drawn
    with pytest.raises(FewstepError, match="Known: maml, vinyals"):
        data.load("omniglot", size=7, partition="mine")


def omniglot_zips(folder, characters=1623):
    """The two zips of Omniglot's home, with one small drawing a character."""
    drawing, written = picture((5, 5), "1", 1), 0
    alphabets = sorted({name for some in splits()["omniglot-vinyals"].values() for name in some})
    for part, share in (("images_background", 964), ("images_evaluation", characters - 964)):
        with zipfile.ZipFile(folder / f"{part}.zip", "w") as archive:
            for _ in range(share):
                name = alphabets[written % len(alphabets)]
                archive.writestr(f"{part}/{name}/character{written // len(alphabets):02d}/0001_01.png", drawing)
                written += 1
    return folder


def test_omniglot_from_the_zips_of_its_home(tmp_path):
    made = read_omniglot(omniglot_zips(tmp_path), 5)
    assert made.images.shape == (1623, 5, 5, 1)
    with zipfile.ZipFile(tmp_path / "images_background.zip") as archive:
        archive.extractall(tmp_path)
    assert read_omniglot(tmp_path, 5).names == made.names
    with pytest.raises(FewstepError, match="1600 characters of Omniglot's 1623"):
        read_omniglot(omniglot_zips(tmp_path, 1600), 5)
    (tmp_path / "images_evaluation.zip").write_bytes((tmp_path / "images_evaluation.zip").read_bytes()[:5000])
    with pytest.raises(FewstepError, match=r"images_evaluation.zip is damaged"):
        read_omniglot(tmp_path, 5)


def cifar_archive(path, cut=None):
    names = [name for group in splits()["cifar100"].values() for name in group]
    records = np.zeros((200, 3074), np.uint8)
    records[:, 1] = np.arange(200) % 100
    records[:, 2:1026] = records[:, 1:2] + 1  # red tells the class
    content = {"fine_label_names.txt": "\n".join(names).encode(), "train.bin": records[:100].tobytes()}
    with tarfile.open(path, "w:gz") as archive:
        for name, some in {**content, "test.bin": records[100:].tobytes()[:cut]}.items():
            entry = tarfile.TarInfo(f"cifar-100-binary/{name}")
            entry.size = len(some)
            archive.addfile(entry, io.BytesIO(some))
    return path


def test_cifar_from_the_archive_of_its_home(tmp_path):
    path = cifar_archive(tmp_path / "cifar-100-binary.tar.gz")
    data.look_in(tmp_path)
    some = data.load("cifar-fs", "test", size=32)
    names = [name for group in splits()["cifar100"].values() for name in group]
    assert some.images.shape == (40, 32, 32, 3)
    assert some.of("whale")[:, 0, 0].tolist() == [[names.index("whale") + 1, 0, 0]] * 2
    assert read_cifar(path, 8).images.shape[1:] == (8, 8, 3)
    with pytest.raises(FewstepError, match="is damaged"):
        read_cifar(cifar_archive(tmp_path / "short.tar.gz", 1000), 32)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(FewstepError, match=r"is damaged.*fewstep data get cifar100"):
        read_cifar(path, 32)


def test_a_folder_is_split_once_and_by_the_seed(tmp_path):
    path = folder_of(tmp_path / "images", 25)
    parts = folder_classes(path, 0, 4)
    assert [len(some) for some in parts.values()] == [16, 4, 5]
    assert folder_classes(path, 0, 4) == parts
    assert folder_classes(path, 1, 4) != parts
    assert [len(some) for some in folder_classes(path, 0, 8).values()] == [9, 8, 8]
    with pytest.raises(FewstepError, match=r"25 classes, and .* need at least the 9 of a task: train has 7"):
        folder_classes(path, 0, 9)


def test_folders_named_by_their_split_are_taken_as_such(tmp_path):
    for part, count in (("train", 3), ("val", 2), ("test", 4)):
        folder_of(tmp_path / "images" / part, count)
    assert [len(some) for some in folder_classes(tmp_path / "images", 0, 2).values()] == [3, 2, 4]


def test_folders_named_in_part_by_their_split_are_refused(tmp_path):
    for part in ("train", "test"):
        folder_of(tmp_path / "miniimagenet" / part, 6)
    with pytest.raises(FewstepError, match="there must be just train, val and test"):
        folder_classes(tmp_path / "miniimagenet", 0, 2)
    data.look_in(tmp_path)
    with pytest.raises(FewstepError, match="there must be just train, val and test"):
        data.load("miniimagenet", size=6)


def test_only_what_can_be_read_counts_as_here(tmp_path):
    data.look_in(tmp_path)
    for name in ("omniglot.zip", "miniimagenet.zip"):
        (tmp_path / name).write_bytes(b"anything")
    assert data.find("omniglot") is None
    assert data.find("miniimagenet") is None
    (tmp_path / "miniimagenet").mkdir()
    (tmp_path / "miniimagenet" / "train.csv").write_text("filename,label\n")
    assert data.find("miniimagenet") == tmp_path / "miniimagenet"


def test_prepared_images_are_found_again_and_made_anew_when_files_change(tmp_path, places):
    path = folder_of(tmp_path / "images", 2)
    load = lambda: (data._load._load_all.cache_clear(), data.load(f"folder:{path}", "all", size=6))[1]
    first = load()
    (kept,) = (places / "prepared").iterdir()
    same, old = kept.stat().st_ino, kept.with_name("old.npz")
    old.write_bytes(b"of another size")
    for path_then in (kept, old):
        os.utime(path_then, (0, 0))
    np.testing.assert_array_equal(load().images, first.images)
    assert kept.stat().st_ino == same
    kept.write_bytes(kept.read_bytes()[:-300])  # damaged: made again, not trusted
    np.testing.assert_array_equal(load().images, first.images)
    (path / "class00" / "9.png").write_bytes(picture())
    assert load().counts.tolist() == [5, 4]
    assert kept.exists()
    assert not old.exists()  # nobody had used it for a month


def test_sizes_and_modes_that_differ_are_brought_to_one_and_said(tmp_path):
    path, said = folder_of(tmp_path / "images", 2), []
    data.on_progress(lambda *told: None, said.append)
    (path / "class00" / "wide.jpg").write_bytes(picture((12, 6), "RGB", 50, "JPEG"))
    (path / "class01" / "clear.png").write_bytes(picture((6, 6), "RGBA", 0))
    (path / "class01" / "deep.png").write_bytes(
        (lambda file: (Image.fromarray(np.full((6, 6), 65535, np.uint16)).save(file, "PNG"), file.getvalue())[1])(
            io.BytesIO()
        )
    )
    made = data.load(f"folder:{path}", "all", size=6, color="gray")
    assert made.images.shape == (11, 6, 6, 1)
    assert said == [
        f"{path} mixes 2 sizes and 4 modes (I;16, L, RGB, RGBA) of images: all were brought to 6 x 6 pixels in gray, "
        "cropped to their middle square."
    ]
    assert sorted(int(value) for value in made.of("class01")[:, 0, 0, 0])[-2:] == [255, 255]  # clear is white paper


def broken(path, what):
    if what == "empty":
        path.mkdir()
    elif what == "loose":
        path.mkdir()
        (path / "a.png").write_bytes(picture())
    elif what == "damaged zip":
        path = path.with_suffix(".zip")
        path.write_bytes(b"PK\x03\x04 nothing more")
    elif what != "missing":
        folder_of(path, 15)
        file = path / "class03" / "0.png"
        file.write_bytes({"truncated": picture((60, 60), "RGB", 7)[:90], "no image": b"text"}.get(what, picture()))
        if what == "few":
            (path / "class04" / "0.png").unlink()
    return path


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("empty", "holds no folder of images: no image was found"),
        ("loose", "1 images lie outside of any folder"),
        ("damaged zip", "is damaged or not a zip"),
        ("missing", "There is no"),
        ("truncated", "class03/0.png is damaged"),
        ("no image", "class03/0.png is not an image"),
        ("few", "have fewer images than a task takes, 4 (1 shots and 3 queries): 'class04' has 3"),
    ],
)
def test_what_is_wrong_with_a_folder_is_one_clear_line(what, said, tmp_path, capsys):
    path = broken(tmp_path / "images", what)
    sizes = ("--steps", 1, "--filters", 2, "--image-size", 16, "--queries", 3)
    code, _, err = output(capsys, "train", "mtnet", f"folder:{path}", *sizes, "--run", tmp_path / "run")
    assert code == 2
    assert said in err.splitlines()[-1]
    assert "Traceback" not in err


def test_progress_has_amount_rate_and_time_left(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(_show.time, "monotonic", lambda: now[0])
    _show.watch_data(None)
    for seconds, done in ((0, 20.0), (4, 24.0), (5, 25.0), (65, 85.0)):  # 20 MB came from an earlier process
        now[0] = seconds
        data._places.progress("downloading a.zip", done, 169.0, "MB")
    data._places.progress("reading b", 7, 0, "images")
    assert capsys.readouterr().err.splitlines() == [
        "downloading a.zip: 24 of 169 MB, 1 MB/s, 2 min left",
        "downloading a.zip: 85 of 169 MB, 1 MB/s, 84 s left",
    ]
