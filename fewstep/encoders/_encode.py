"""The features of many items: computed once, in batches, and kept on disk as they come."""

import time
from collections.abc import Sequence

import numpy as np

from fewstep import data
from fewstep.encoders._cache import Say, Store, key_of
from fewstep.encoders._encoder import Encoder, Item
from fewstep.encoders._items import check

_BATCH = 64
_SHARD_BYTES, _SHARD_ROWS, _SHARD_SECONDS = 16_000_000, 1024, 20.0  # of work that a killed run loses at most
_UNITS = {"image": "images", "text": "texts", "row": "rows"}


def encode_all(encoder: Encoder, items: Sequence[Item], *, say: Say = data.say, cache: bool = True) -> np.ndarray:
    """The rows of all items, (items, *encoder.shape).

    What was computed before, for any of these items, is read from the cache. The rest is computed in batches and
    written as it comes, so that a run that was stopped goes on where it was. Progress goes where `data.on_progress`
    says; the command line prints it with rate and time left.

    **Arguments:** `say` hears remarks, such as a damaged cache; `cache=False` neither reads nor writes one.
    """
    check(encoder.name, encoder.modality, items)
    places: dict[bytes, list[int]] = {}
    for number, item in enumerate(items):
        places.setdefault(key_of(item), []).append(number)
    rows, missing = np.zeros((len(items), *encoder.shape), np.float32), set(places)
    store = Store(encoder, say) if cache else None
    for key, row in store.find(places.keys()) if store else ():
        rows[places[key]] = row
        missing.discard(key)
    # Texts of similar length share a batch, so that little of it is filling.
    queue = sorted(missing, key=lambda key: (_length(items[places[key][0]]), places[key][0]))
    _compute(encoder, items, places, queue, rows, store)
    return rows


def encode_few(encoder: Encoder, items: Sequence[Item]) -> np.ndarray:
    """The rows of a few items, as a request brings them: at once, and nothing of them is kept on disk."""
    check(encoder.name, encoder.modality, items)
    return encoder.encode(encoder.prepare(items))


def _compute(
    encoder: Encoder, items: Sequence[Item], places: dict[bytes, list[int]], queue: list[bytes], rows: np.ndarray,
    store: Store | None,
) -> None:  # fmt: skip
    what, unit = f"features of {encoder.name}", _UNITS[encoder.modality]
    per_shard = max(1, min(_SHARD_ROWS, _SHARD_BYTES // (4 * int(np.prod(encoder.shape)))))
    pending, last = list[bytes](), time.monotonic()

    def keep() -> None:
        if store and pending:
            store.write(pending, rows[[places[key][0] for key in pending]])

    try:
        for start in range(0, len(queue), _BATCH):
            data.progress(what, start, len(queue), unit)
            keys = queue[start : start + _BATCH]
            part = encoder.encode(encoder.prepare([items[places[key][0]] for key in keys]))
            for key, row in zip(keys, part, strict=True):
                rows[places[key]] = row
            pending += keys
            if len(pending) >= per_shard or time.monotonic() - last > _SHARD_SECONDS:
                keep()
                pending, last = [], time.monotonic()
    finally:
        keep()
    if store and queue:
        store.tidy()


def _length(item: Item) -> int:
    return len(item) if isinstance(item, str) else 0
