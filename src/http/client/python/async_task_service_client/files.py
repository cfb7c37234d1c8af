"""``client.files``: uploads and download links."""

import os
import secrets
import time
from typing import Any, BinaryIO, Callable, Iterable, Iterator, Mapping, Optional, Tuple, Union, cast

from ._transport import Call, Transport
from .types import MEDIA_TYPES, UploadedFile

#: A path, bytes, an open binary file, or anything that yields bytes.
FileContent = Union[str, "os.PathLike[str]", bytes, BinaryIO, Iterable[bytes]]

#: Called with the number of bytes sent and of all bytes, which is None when it is unknown.
OnProgress = Callable[[int, Optional[int]], object]

_chunk_size = 65536
#: Seconds for which the storage's base URL is cached.
_base_ttl = 60


def _size_of(content: Any) -> Optional[int]:
    """Bytes from here to the end; None when that is unknown."""
    if isinstance(content, bytes):
        return len(content)
    try:
        position: int = content.tell()
        size: int = content.seek(0, os.SEEK_END) - position
        content.seek(position)
        return size
    except (AttributeError, OSError):
        return None


def _read(file: Any) -> Iterator[bytes]:
    while True:
        chunk = file.read(_chunk_size)
        if isinstance(chunk, str):
            raise TypeError('upload needs bytes: open the file with "rb"')
        if not chunk:
            return
        yield chunk


def _chunks(content: Union[bytes, BinaryIO, Iterable[bytes]]) -> Iterator[bytes]:
    if isinstance(content, bytes):
        return (content[at : at + _chunk_size] for at in range(0, len(content), _chunk_size))
    return _read(content) if hasattr(content, "read") else iter(content)


def _quoted(name: str) -> str:
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _form(
    content: Iterator[bytes], name: str, media_type: str, boundary: str, on_bytes: Callable[[int], None]
) -> Iterator[bytes]:
    """A multipart form with one file."""
    disposition = f'Content-Disposition: form-data; name="file"; filename="{_quoted(name)}"'
    yield f"--{boundary}\r\n{disposition}\r\nContent-Type: {media_type}\r\n\r\n".encode()
    for chunk in content:
        if chunk:
            yield chunk
            on_bytes(len(chunk))
    yield f"\r\n--{boundary}--\r\n".encode()


class FilesResource:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._base: Optional[Tuple[str, float]] = None

    def upload(
        self,
        content: FileContent,
        *,
        name: Optional[str] = None,
        media_type: Optional[str] = None,
        on_progress: Optional[OnProgress] = None,
        timeout: float = 300,
    ) -> UploadedFile:
        """Uploads a file, given by its path or open. The result is an item for a task's ``input``.

        The content is sent as it is read, so a failure is not retried. ``name`` is that of the file by default; its
        extension determines the format, or ``media_type`` if it has none. ``timeout`` is in seconds without progress.
        """
        if isinstance(content, (str, os.PathLike)):
            with open(content, "rb") as file:
                return self.upload(file, name=name, media_type=media_type, on_progress=on_progress, timeout=timeout)
        opened = getattr(content, "name", None)
        found = name or (os.path.basename(opened) if isinstance(opened, str) else "blob" if media_type else "")
        if found == "":
            raise TypeError('upload needs a file name: name="report.pdf"')
        extension = found.rpartition(".")[2].lower()
        type_of_name: str = MEDIA_TYPES.get(extension, "application/octet-stream")
        boundary = f"form-{secrets.token_hex(16)}"
        total, loaded = _size_of(content), 0

        def on_bytes(count: int) -> None:
            nonlocal loaded
            loaded += count
            if on_progress is not None:
                on_progress(loaded, total)

        call = Call(
            "POST",
            "/api/files",
            headers={"content-type": f"multipart/form-data; boundary={boundary}"},
            stream=_form(_chunks(content), found, media_type or type_of_name, boundary, on_bytes),
            stream_timeout=timeout,
        )
        return cast(UploadedFile, self._transport.json(call))

    def url(self, file: Union[str, Mapping[str, Any]]) -> str:
        """The download link of an uploaded file, an input item, an item of a turn's output, or a storage path.

        It needs no token.
        """
        path = file if isinstance(file, str) else (file["file"].get("provider_data") or {}).get("path")
        if path is None:
            raise TypeError("The file has no provider_data.path")
        base = self._base
        if base is None or base[1] < time.monotonic():
            url = self._transport.json(Call("GET", "/api/storage/base"))["url"]
            self._base = base = (url, time.monotonic() + _base_ttl)
        return f"{base[0]}/{path}"
