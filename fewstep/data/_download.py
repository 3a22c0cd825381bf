"""Downloads: they resume where they broke off, and only the right bytes get a file's name."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewstep._errors import FewstepError
from fewstep.data import _places
from fewstep.files import locked, writing

if TYPE_CHECKING:
    from requests import Response

_BLOCK = 1 << 16
_SECONDS = 30.0
_RETRIES = 2  # after one second, then two
_PARTIAL, _NO_SUCH_RANGE = 206, 416


def download(url: str, target: Path, sha256: str) -> Path:
    """Downloads a file and checks it; a file that is there and whole is left alone, one that broke off is resumed.

    Raises `FewstepError` when the server cannot be reached, sends other bytes, or the disk is full.
    """
    import pooch
    from requests.exceptions import RequestException  # an OSError too: it comes first below

    if target.exists() and checksum(target) == sha256:
        return target
    pooch.get_logger().setLevel("WARNING")  # what it would print is in our progress and messages
    registry, urls = {target.name: f"sha256:{sha256}"}, {target.name: url}
    files = pooch.create(target.parent, base_url="", registry=registry, urls=urls, retry_if_failed=_RETRIES)
    part = target.with_name(f"{target.name}.part")
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.parent, f"Another process is downloading to {target.parent}. Wait for it."):
        try:
            return Path(files.fetch(target.name, downloader=_Resuming(part)))
        except RequestException as error:
            raise FewstepError(
                f"Cannot download {url}: {_reason(error)}. Try again later{_rest(part)}, or put the file into a folder "
                "of yours and name it: `fewstep.data.look_in(FOLDER)`."
            ) from error
        except OSError as error:
            raise FewstepError(f"Cannot write {target}: {error.strerror or error}. Make room there.") from error
        except ValueError as error:  # what pooch raises for a wrong checksum
            raise FewstepError(
                f"{url} sent other bytes than expected: {str(error).split('. ')[0]}. They were removed. Try again; if "
                "it stays so, the file has changed at its home or on the way."
            ) from error


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    import pooch

    return pooch.file_hash(str(path), "sha256")


class _Resuming:
    """A downloader for pooch. What has arrived stays in `part`, and the next try asks for the rest only."""

    def __init__(self, part: Path):
        self.part = part

    def __call__(self, url: str, file: str, files: Any) -> None:
        with self._answer(url) as answer:
            first = _first(answer)
            total = first + int(answer.headers.get("Content-Length", 0))
            with self.part.open("r+b" if first else "wb") as target:
                target.seek(first)
                for block in answer.iter_content(_BLOCK):
                    target.write(block)
                    _places.progress(f"downloading {url.rpartition('/')[2]}", target.tell() / 1e6, total / 1e6, "MB")
                target.truncate()
        self.part.replace(file)  # pooch checks it there, and removes it if the bytes are others

    def _answer(self, url: str) -> "Response":
        """The server's answer with the rest; with the whole file if the server has another rest, or sends none."""
        import requests

        size = self.part.stat().st_size if self.part.exists() else 0
        headers = {"User-Agent": "fewstep", "Accept-Encoding": "identity"}
        ask = partial(requests.get, url, stream=True, timeout=_SECONDS)
        # The last byte is asked for again: a file that has all of them has a rest too.
        answer = ask(headers=headers | ({"Range": f"bytes={size - 1}-"} if size else {}))
        if answer.status_code == _NO_SUCH_RANGE or _first(answer) not in (0, size - 1):
            answer.close()
            answer = ask(headers=headers)
        answer.raise_for_status()
        return answer


def _first(answer: "Response") -> int:
    """The place in the file of an answer's first byte; -1 if it does not say."""
    if answer.status_code != _PARTIAL:
        return 0
    place = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", ""))
    return int(place[1]) if place else -1


def _rest(part: Path) -> str:
    return f" for the rest after {part.stat().st_size / 1e6:.1f} MB" if part.exists() else ""


def _reason(error: BaseException) -> str:
    """Why a request failed, in a few words: its status, or the innermost of the errors that are wrapped in it."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code}"
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
