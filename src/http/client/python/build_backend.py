"""Builds the package with nothing but Python (PEP 517 and 660): `python3 build_backend.py DIRECTORY` writes wheel and sdist.

The page links to the repository that package.json of the service names, which the release sets; without one its links
are words.
"""

import base64
import gzip
import hashlib
import io
import json
import os.path
import re
import sys
import tarfile
import zipfile
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Before Python 3.11.
    from pip._vendor import tomli as tomllib

here = Path(__file__).resolve().parent
package = "async_task_service_client"
#: The folder of the page in the repository.
folder = "src/http/client/python"


def _service():
    """The manifest of the service; an sdist has a PKG-INFO instead."""
    return json.loads((here / "../../../../package.json").read_text(encoding="utf-8"))


def _version():
    info = here / "PKG-INFO"
    if info.exists():
        return re.search(r"^Version: (\S+)$", info.read_text(encoding="utf-8"), re.M)[1]
    return _service()["version"]


def _page(repository):
    """The page of the package, whose links to other pages are absolute, or else only their words."""

    def link(match):
        target = os.path.normpath(f"{folder}/{match[2]}").replace(os.sep, "/")
        return f"[{match[1]}]({repository}/blob/v{_version()}/{target})" if repository else match[1]

    text = (here / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)", link, text)


def _metadata():
    info = here / "PKG-INFO"
    if info.exists():
        return info.read_bytes()
    project = tomllib.loads((here / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    repository = _service().get("homepage", "")
    links = {"Homepage": "", "Documentation": "#readme", "Changelog": "/blob/main/.github/CHANGELOG.md"}
    headers = [
        ("Metadata-Version", "2.1"),
        ("Name", project["name"]),
        ("Version", _version()),
        ("Summary", project["description"]),
        ("Keywords", ",".join(project["keywords"])),
        *(("Project-URL", f"{name}, {repository}{path}") for name, path in links.items() if repository),
        *(("Classifier", classifier) for classifier in project["classifiers"]),
        ("Requires-Python", project["requires-python"]),
        ("Description-Content-Type", "text/markdown"),
    ]
    return ("".join(f"{name}: {value}\n" for name, value in headers) + "\n" + _page(repository)).encode()


def _sources():
    names = [*sorted(path.name for path in (here / package).glob("*.py")), "py.typed"]
    return {f"{package}/{name}": (here / package / name).read_bytes() for name in names}


def _record_line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def _wheel(directory, files):
    """The same sources make the same bytes: each entry has the same date and mode."""
    info = f"{package}-{_version()}.dist-info"
    wheel = b"Wheel-Version: 1.0\nGenerator: build_backend\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {**files, f"{info}/METADATA": _metadata(), f"{info}/WHEEL": wheel}
    record = "".join(_record_line(name, content) for name, content in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    name = f"{package}-{_version()}-py3-none-any.whl"
    with zipfile.ZipFile(Path(directory, name), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, _sources())


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """A wheel that leads to this folder."""
    return _wheel(wheel_directory, {f"{package}.pth": f"{here}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    base = f"{package}-{_version()}"
    own = {name: (here / name).read_bytes() for name in ("README.md", "build_backend.py", "pyproject.toml")}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, text in {"PKG-INFO": _metadata(), **own, **_sources()}.items():
            entry = tarfile.TarInfo(f"{base}/{path}")
            entry.size, entry.mode = len(text), 0o644
            archive.addfile(entry, io.BytesIO(text))
    Path(sdist_directory, f"{base}.tar.gz").write_bytes(gzip.compress(content.getvalue(), mtime=0))
    return f"{base}.tar.gz"


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    print(directory / build_sdist(directory))
    print(directory / build_wheel(directory))
