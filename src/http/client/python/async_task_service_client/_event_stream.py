"""Parses server-sent events (WHATWG HTML) in time linear in their size."""

import codecs
import re
from dataclasses import dataclass
from typing import Callable, Iterator, List

_line_end = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class ServerSentEvent:
    id: str
    event: str
    data: str


def _lines(read: Callable[[], bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    # The pieces of a line that has not ended. A large line arrives in many chunks, so they are joined once.
    pieces: List[str] = []
    ends_in_cr = False
    while True:
        chunk = read()
        if chunk == b"":
            return
        text = decoder.decode(chunk)
        if text == "":
            continue
        first, *others = _line_end.split(text[1:] if ends_in_cr and text[0] == "\n" else text)
        ends_in_cr = text[-1] == "\r"
        pieces.append(first)
        if others:
            yield "".join(pieces)
            yield from others[:-1]
            pieces = [others[-1]]


def read(read_some: Callable[[], bytes]) -> Iterator[ServerSentEvent]:
    """``read_some`` returns the next bytes, and none at the end."""
    last_id = ""
    event = ""
    data: List[str] = []
    for line in _lines(read_some):
        if line == "":
            if data:
                yield ServerSentEvent(last_id, event or "message", "\n".join(data))
            event, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "id":
            last_id = value
        elif name == "event":
            event = value
        elif name == "data":
            data.append(value)
