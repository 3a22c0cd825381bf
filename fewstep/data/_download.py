"""Downloads that can break off: what has come is kept, the rest is asked for, and only the right bytes are taken."""

import hashlib
import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from fewstep._errors import FewstepError
from fewstep.data import _places
from fewstep.files import locked, writing

_BLOCK = 1 << 16
_SECONDS = 30.0
_TRIES = 4
_MOST = 4_000_000_000


def download(url: str, target: Path, md5: str, *, pause: float = 1.0) -> Path:
    """Downloads a file and checks it; a file that is there and whole is left alone.

    What has come of a broken download stays beside it with the ending `.part`, and the next try asks for the rest.
    Raises `FewstepError` when the server cannot be reached, sends other bytes, or the disk is full.

    **Arguments:** `pause` in seconds before a second try, and twice that before a third.
    """
    if target.exists() and checksum(target) == md5:
        return target
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    if part.exists() and checksum(part) == md5:  # whole, but its process was ended before it got its name
        _take(part, target, url, md5)
        return target
    with locked(target.parent, f"Another process is downloading to {target.parent}. Wait for it."):
        for number in range(_TRIES):
            broken = _fetch(url, part)
            if broken is None:
                break
            if number == _TRIES - 1 or broken.startswith("!"):
                raise FewstepError(
                    f"Cannot download {url}: {broken.lstrip('!')}. What has come is kept; run the same command to go "
                    f"on, or put the file into a folder of yours and name it: `fewstep.data.look_in(FOLDER)`."
                )
            time.sleep(pause * 2**number)
        _take(part, target, url, md5)
    return target


def checksum(path: Path) -> str:
    """The md5 of a file, which is what the homes of these sets are known by."""
    total = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def _take(part: Path, target: Path, url: str, md5: str) -> None:
    """Gives a whole file its name; removes one with other bytes, so that the next try starts anew."""
    found = checksum(part)
    with writing(target):
        if found != md5:
            part.unlink()
            raise FewstepError(
                f"{url} sent other bytes than expected: md5 {found} instead of {md5}. They were removed. Try again; if "
                "it stays so, the file has changed at its home or on the way."
            )
        part.replace(target)


def _fetch(url: str, part: Path) -> str | None:
    """Fetches what is missing of a file; why it broke off, if it did (`!` where trying again is no use)."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "fewstep"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        with _OPENER.open(request, timeout=_SECONDS) as answer:
            return _receive(answer, part, have)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # the part is as long as the file, or longer
            part.unlink()
            return "the part that had come did not fit the file"
        return ("" if error.code >= 500 or error.code == 429 else "!") + f"the server answered {error.code}"
    except (http.client.HTTPException, OSError) as error:
        return str(getattr(error, "reason", None) or error) or type(error).__name__


def _receive(answer: Any, part: Path, have: int) -> str | None:
    rest = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    have = have if rest else 0
    told = answer.headers.get("Content-Length") or ""
    total, name = have + (int(told) if told.isdigit() else 0), part.name.removesuffix(".part")
    with writing(part):
        file = part.open("ab" if rest else "wb")
    with file:
        while True:
            try:
                block = answer.read(_BLOCK)
            except (http.client.HTTPException, OSError) as error:
                return f"it broke off after {have} bytes ({type(error).__name__})"
            if not block:
                break
            with writing(part):
                file.write(block)
                file.flush()
            have += len(block)
            if have > _MOST:
                return "!it is larger than 4 GB"
            _places.progress(f"downloading {name}", have / 1e6, total / 1e6, "MB")
    return f"it broke off after {have} of {total} bytes" if told.isdigit() and have < total else None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to http and https only, and never from https to http."""

    def redirect_request(self, request: Any, *rest: Any) -> Any:
        scheme = urllib.parse.urlsplit(rest[-1]).scheme
        if scheme not in ("http", "https") or (request.type == "https" and scheme == "http"):
            raise urllib.error.URLError(f"it was redirected to {rest[-1]}, which is not safe")
        return super().redirect_request(request, *rest)


_OPENER = urllib.request.build_opener(_Redirects)
