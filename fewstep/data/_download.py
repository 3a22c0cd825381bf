"""Downloads: only the right bytes get a file's name."""

from pathlib import Path
from typing import Any

from fewstep._errors import FewstepError
from fewstep.data import _places
from fewstep.files import locked, writing

_BLOCK = 1 << 16
_SECONDS = 30.0
_RETRIES = 2  # after one second, then two


def download(url: str, target: Path, sha256: str) -> Path:
    """Downloads a file and checks it; a file that is there and whole is left alone.

    Raises `FewstepError` when the server cannot be reached, sends other bytes, or the disk is full.
    """
    import pooch
    from requests.exceptions import RequestException  # an OSError too: it comes first below

    if target.exists() and checksum(target) == sha256:
        return target
    pooch.get_logger().setLevel("WARNING")  # what it would print is in our progress and messages
    registry, urls = {target.name: f"sha256:{sha256}"}, {target.name: url}
    files = pooch.create(target.parent, base_url="", registry=registry, urls=urls, retry_if_failed=_RETRIES)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.parent, f"Another process is downloading to {target.parent}. Wait for it."):
        try:
            return Path(files.fetch(target.name, downloader=_fetch))
        except RequestException as error:
            raise FewstepError(
                f"Cannot download {url}: {_reason(error)}. Try again later, or put the file into a folder of yours and "
                "name it: `fewstep.data.look_in(FOLDER)`."
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


def _fetch(url: str, file: str, files: Any) -> None:
    """One try of a download, as pooch asks for it."""
    import pooch

    headers = {"User-Agent": "fewstep", "Accept-Encoding": "identity"}
    name = url.rpartition("/")[2]
    pooch.HTTPDownloader(_Bar(name), _BLOCK, headers=headers, timeout=_SECONDS)(url, file, files)


class _Bar:
    """A progress bar with the methods that pooch calls, which reports to whoever `on_progress` named."""

    total = 0

    def __init__(self, name: str):
        self._name, self._bytes = name, 0

    def update(self, count: int) -> None:
        self._bytes = min(self._bytes + count, self.total or self._bytes + count)
        _places.progress(f"downloading {self._name}", self._bytes / 1e6, self.total / 1e6, "MB")

    def reset(self) -> None:
        self._bytes = 0

    def close(self) -> None:
        pass


def _reason(error: BaseException) -> str:
    """Why a request failed, in a few words: its status, or the innermost of the errors that are wrapped in it."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code}"
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
