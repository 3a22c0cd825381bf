"""Rows of features on disk, one by one found again by the digest of what they were computed from.

An encoder has a folder, named by its digest, of shards: files with the rows of some items and a checksum.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np

from fewstep._errors import FewstepError
from fewstep.encoders._encoder import Encoder, Item
from fewstep.files import cache, forget_old, mark_used, read_archive, write_archive

_KIND, _VERSION = "shard of features", 1
_SMALL, _MANY = 1_000_000, 64  # bytes; files
Say = Callable[[str], None]


def key_of(item: Item) -> bytes:
    """The digest of an item's content."""
    total = hashlib.blake2b(digest_size=16)
    if isinstance(item, str):
        total.update(b"text" + item.encode("utf-8", "surrogatepass"))
    else:
        total.update(f"{item.dtype.str} {item.shape} ".encode() + np.ascontiguousarray(item).tobytes())
    return total.digest()


class Store:
    """The cached rows of one encoder."""

    def __init__(self, encoder: Encoder, say: Say) -> None:
        self.folder, self.shape, self.say = cache() / "features" / encoder.digest, encoder.shape, say
        self.writes = True

    def find(self, wanted: Collection[bytes]) -> Iterator[tuple[bytes, np.ndarray]]:
        """The rows of those that are there."""
        for path in sorted(self.folder.glob("*.npz")):
            keys, rows = self._read(path)
            hits = [number for number, key in enumerate(keys) if key in wanted]
            if hits:
                mark_used(path)
                yield from ((keys[number], rows[number]) for number in hits)

    def _read(self, path: Path) -> tuple[list[bytes], np.ndarray]:
        """The keys and rows of a shard. One that is damaged is reported, removed, and counts as empty."""
        try:
            _, arrays = read_archive(path, _KIND, _VERSION)
            keys, rows = [key.tobytes() for key in arrays["keys"]], arrays["rows"]
            if rows.shape == (len(keys), *self.shape):
                return keys, rows
        except (FewstepError, KeyError):
            pass
        if path.exists():  # otherwise another process has removed it meanwhile
            self.say(f"The cached features {path} are damaged. They were removed and are computed again.")
            path.unlink(missing_ok=True)
        return [], np.zeros((0, *self.shape), np.float32)

    def write(self, keys: list[bytes], rows: np.ndarray) -> None:
        """Keeps some rows. A disk that refuses is reported once; the work goes on."""
        if not self.writes:
            return
        name = hashlib.blake2b(b"".join(keys), digest_size=16).hexdigest()
        arrays = {"keys": np.asarray([np.frombuffer(key, np.uint8) for key in keys]), "rows": rows}
        try:
            write_archive(self.folder / f"{name}.npz", _KIND, _VERSION, {}, arrays)
        except FewstepError as error:
            self.writes = False
            self.say(f"Features are not kept, and are computed again next time. {error} FEWSTEP_CACHE names another.")

    def tidy(self) -> None:
        """Makes one shard of many small ones, and removes those, of any encoder, that nobody has used for a month."""
        forget_old(self.folder.parent, "*/*.n*")
        small = [path for path in sorted(self.folder.glob("*.npz")) if path.stat().st_size < _SMALL]
        if len(small) >= _MANY:
            shards = [self._read(path) for path in small]
            self.write([key for keys, _ in shards for key in keys], np.concatenate([rows for _, rows in shards]))
            for path in small if self.writes else ():
                path.unlink(missing_ok=True)
