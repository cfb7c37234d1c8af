"""Builds the wheel with nothing but the standard library (PEP 517): `python3 build_backend.py DIRECTORY`."""

import base64
import hashlib
import json
import sys
import zipfile
from pathlib import Path

here = Path(__file__).resolve().parent
package = "async_task_service_client"


def _version() -> str:
    """That of the service."""
    return json.loads((here / "../../../../package.json").read_text())["version"]


def _record_line(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    version = _version()
    info = f"{package}-{version}.dist-info"
    files = {f"{package}/{path.name}": path.read_bytes() for path in sorted((here / package).glob("*.py"))}
    files[f"{package}/py.typed"] = b""
    headers = {
        "Metadata-Version": "2.1",
        "Name": package.replace("_", "-"),
        "Version": version,
        "Summary": "Client of the Asynchronous Task Service: tasks, tools, files, events and webhook verification",
        "Requires-Python": ">=3.9",
        "Description-Content-Type": "text/markdown",
    }
    metadata = "".join(f"{name}: {value}\n" for name, value in headers.items())
    files[f"{info}/METADATA"] = f"{metadata}\n{(here / 'README.md').read_text()}".encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: build_backend\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = f"{info}/RECORD"
    lines = [_record_line(name, content) for name, content in files.items()]
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    wheel = f"{package}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            # The same date and mode for each, so that the same sources make the same bytes.
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("Only wheels are built: they have every source.")


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    print(directory / build_wheel(directory))
