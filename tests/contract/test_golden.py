"""Messages are encoded and decoded as the golden files state. A change here needs a new `WIRE_VERSION`.

For a new message, add it to `examples.py` and write its file by hand or with
`python -m tests.contract.test_golden NAME`, then review the file.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from router import messages
from router.errors import UndecodableMessage
from router.messages import Codec, encode
from tests.contract.examples import EXAMPLES, JOB

GOLDEN = Path(__file__).with_name("golden")


def codec_of(message: msgspec.Struct) -> Codec[Any]:
    by_type: dict[type, Codec[Any]] = {
        messages.Job: messages.JOBS,
        messages.Window: messages.WINDOWS,
        messages.UsageRecord: messages.SETTLEMENTS,
        messages.Receipt: messages.SETTLEMENTS,
        messages.Cancel: messages.CONTROLS,
        messages.Drain: messages.CONTROLS,
        messages.Ping: messages.CONTROLS,
        messages.Resume: messages.CONTROLS,
        messages.KeysChanged: messages.CONTROLS,
        messages.GatewayLoad: messages.CONTROLS,
        messages.FollowAnswer: messages.CONTROLS,
        messages.AnswerPart: messages.CONTROLS,
        messages.WorkerStatus: messages.STATUSES,
    }
    return by_type[type(message)]


def written(message: msgspec.Struct) -> bytes:
    """As in the file: indented for people."""
    return msgspec.json.format(encode(message), indent=1) + b"\n"


@pytest.mark.parametrize("name", EXAMPLES)
def test_golden(name: str) -> None:
    golden = (GOLDEN / f"{name}.json").read_bytes()
    assert written(EXAMPLES[name]) == golden
    assert codec_of(EXAMPLES[name]).decode(golden) == EXAMPLES[name]


def test_every_file_has_its_example() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(EXAMPLES)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"type":"job"}',
        b"[" * 100_000,
        encode(EXAMPLES["usage_record"]),
        encode(JOB).replace(b'"v":1', b'"v":2'),
        encode(JOB).replace(b'"seed":7', b'"seed":"7"'),
        encode(EXAMPLES["job_child"]).replace(b'"depth":1', b'"depth":4'),
    ],
)
def test_anything_else_is_undecodable(body: bytes) -> None:
    with pytest.raises(UndecodableMessage):
        messages.JOBS.decode(body)


def test_unknown_fields_are_ignored_so_that_new_senders_and_old_readers_mix() -> None:
    assert messages.JOBS.decode(encode(JOB)[:-1] + b',"new":1}') == JOB


@pytest.mark.parametrize("count", [-1, 2**53, 10**400], ids=["negative", "too large", "huge"])
@pytest.mark.parametrize(
    ("codec", "message", "field"),
    [(messages.WINDOWS, "window_delta", b'"s"'), (messages.STATUSES, "worker_status", b'"max_num_seqs"')],
)
def test_counts_that_do_not_fit_into_floats_and_sums_are_undecodable(
    codec: Codec[Any], message: str, field: bytes, count: int
) -> None:
    body = re.sub(field + rb":\d+", field + b":%d" % count, encode(EXAMPLES[message]))
    assert str(count).encode() in body
    with pytest.raises(UndecodableMessage):
        codec.decode(body)


if __name__ == "__main__":
    for example in sys.argv[1:] or EXAMPLES:
        (GOLDEN / f"{example}.json").write_bytes(written(EXAMPLES[example]))
