"""Downloads against a real server on loopback that misbehaves on demand, and hostile archives."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import socket
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from labelspace.datasets import catalogue
from labelspace.datasets import download as module
from labelspace.datasets.download import download, extract, get
from labelspace.errors import DataError, DownloadError, ParameterError

BODY = bytes(range(256)) * 1200  # 300 KB: more than one read


@dataclass
class Site:
    """The next responses of the server, and the requests that it saw."""

    body: bytes = BODY
    etag: str | None = '"one"'
    ranges: bool = True
    if_range: bool = True
    status: int = 200
    content_type: str = "application/zip"
    cut_after: list[int] = field(default_factory=list)  # bytes sent before the line breaks
    seen: list[dict[str, str]] = field(default_factory=list)
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        site = self.site
        site.seen.append(dict(self.headers))
        start = self.wanted_start()
        if site.status != 200:
            self.send_error(site.status)
            return
        if start is not None and start >= len(site.body):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(site.body)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200 if start is None else 206)
        body = site.body[start or 0 :]
        self.send_header("Content-Type", site.content_type)
        self.send_header("Content-Length", str(len(body)))
        if site.etag:
            self.send_header("ETag", site.etag)
        if start is not None:
            end = len(site.body) - 1
            self.send_header("Content-Range", f"bytes {start}-{end}/{len(site.body)}")
        self.end_headers()
        self.wfile.write(body[: site.cut_after.pop(0)] if site.cut_after else body)

    def wanted_start(self) -> int | None:
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if not wanted or not self.site.ranges:
            return None
        if self.site.if_range and self.headers.get("If-Range") != self.site.etag:
            return None
        return int(wanted[1])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    state = Site()
    handler = type("BoundHandler", (Handler,), {"site": state})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        state.url = f"http://127.0.0.1:{server.server_address[1]}/set.zip"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield state
        server.shutdown()
        thread.join(timeout=10)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "below" / "set.zip"


def left_over(target: Path) -> set[str]:
    return {path.name for path in target.parent.iterdir()} - {target.name}


def ranges(site: Site) -> list[str | None]:
    return [headers.get("Range") for headers in site.seen]


def test_whole_file_with_progress_and_recorded_checksum(site: Site, target: Path) -> None:
    steps: list[tuple[int, int | None]] = []
    assert download(site.url, target, progress=lambda *step: steps.append(step)) == target
    assert target.read_bytes() == BODY
    assert left_over(target) == {"set.zip.sha256"}
    record = (target.parent / "set.zip.sha256").read_text(encoding="utf-8")
    assert record == f"{hashlib.sha256(BODY).hexdigest()}  set.zip\n"
    assert steps[-1] == (len(BODY), len(BODY))
    assert steps == sorted(steps)


def test_file_at_hand_is_not_fetched_again_but_checked(site: Site, target: Path) -> None:
    download(site.url, target)
    download(site.url, target)
    assert len(site.seen) == 1
    target.write_bytes(b"tampered")
    with pytest.raises(DownloadError, match="expected"):
        download(site.url, target)
    assert target.read_bytes() == b"tampered"  # the user's file is left to the user


def test_recorded_checksum_guards_a_second_download(site: Site, target: Path) -> None:
    download(site.url, target)
    target.unlink()
    site.body = b"another file"
    with pytest.raises(DownloadError, match=r"delete set\.zip\.sha256"):
        download(site.url, target)
    assert not target.exists()


def test_resumes_by_itself_when_the_line_breaks(site: Site, target: Path) -> None:
    site.cut_after = [100_000, 50_000]
    download(site.url, target)
    assert target.read_bytes() == BODY
    assert ranges(site) == [None, "bytes=100000-", "bytes=150000-"]
    assert site.seen[1]["If-Range"] == '"one"'


def test_resumes_in_a_later_call_after_ctrl_c(site: Site, target: Path) -> None:
    def interrupt(*_: int | None) -> None:
        raise KeyboardInterrupt

    site.cut_after = [100_000]
    with pytest.raises(KeyboardInterrupt):
        download(site.url, target, progress=interrupt)
    kept = (target.parent / "set.zip.part").stat().st_size
    assert 0 < kept < len(BODY)
    assert not target.exists()
    download(site.url, target)
    assert target.read_bytes() == BODY
    assert ranges(site)[-1] == f"bytes={kept}-"


def test_gives_up_after_a_bounded_number_of_broken_lines(site: Site, target: Path) -> None:
    site.cut_after = [10] * 50
    with pytest.raises(DownloadError, match=r"broke 5 times in a row \(50 of 307,200 bytes"):
        download(site.url, target)
    assert len(site.seen) == 5
    assert (target.parent / "set.zip.part").read_bytes() == BODY[:50]
    site.cut_after = []
    assert download(site.url, target).read_bytes() == BODY


def test_a_line_that_brings_chunks_may_break_more_often(
    site: Site, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", 1_000)
    site.cut_after = [20_000] * 12
    assert download(site.url, target).read_bytes() == BODY
    assert len(site.seen) == 13


def test_server_without_ranges_starts_over(site: Site, target: Path) -> None:
    site.ranges = False
    site.cut_after = [100_000]
    download(site.url, target)
    assert target.read_bytes() == BODY
    assert ranges(site) == [None, "bytes=100000-"]


def test_server_without_any_version_tag_is_not_trusted_to_resume(site: Site, target: Path) -> None:
    site.etag = None
    site.cut_after = [100_000]
    download(site.url, target)
    assert target.read_bytes() == BODY
    assert ranges(site) == [None, None]


@pytest.mark.parametrize("honours_if_range", [True, False])
def test_file_that_changed_in_between_is_not_mixed(
    site: Site, target: Path, honours_if_range: bool
) -> None:
    site.cut_after = [100_000] + [10] * 4
    with pytest.raises(DownloadError):
        download(site.url, target)
    site.body, site.etag, site.if_range = BODY[::-1], '"two"', honours_if_range
    download(site.url, target)
    assert target.read_bytes() == BODY[::-1]


@pytest.mark.parametrize("new_body", [BODY, BODY[:1000]], ids=["complete", "shrunk"])
def test_range_beyond_the_end(site: Site, target: Path, new_body: bytes) -> None:
    """All bytes are there but not renamed; or the file on the server became shorter."""
    target.parent.mkdir()
    (target.parent / "set.zip.part").write_bytes(BODY)
    (target.parent / "set.zip.part.etag").write_text('"one"', encoding="utf-8")
    site.body = new_body
    download(site.url, target)
    assert target.read_bytes() == new_body
    assert len(site.seen) == (1 if new_body == BODY else 2)


def test_checksum_right_and_wrong(site: Site, target: Path) -> None:
    right = hashlib.sha256(BODY).hexdigest()
    with pytest.raises(DownloadError, match=f"sha256 {right}, expected {'0' * 64}"):
        download(site.url, target, sha256="0" * 64)
    assert not target.exists()
    assert not (target.parent / "set.zip.part").exists()
    assert download(site.url, target, sha256=right.upper()).read_bytes() == BODY


def test_missing_page_is_requested_once(site: Site, target: Path) -> None:
    site.status = 404
    with pytest.raises(DownloadError, match="answered 404"):
        download(site.url, target)
    assert len(site.seen) == 1


def test_server_in_trouble_is_requested_again(site: Site, target: Path) -> None:
    site.status = 503
    with pytest.raises(DownloadError, match="503"):
        download(site.url, target)
    assert len(site.seen) == 5


def test_web_page_instead_of_the_file(site: Site, target: Path) -> None:
    site.content_type = "text/html; charset=utf-8"
    with pytest.raises(DownloadError, match="web page instead of the file"):
        download(site.url, target)


def test_connection_refused(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        with pytest.raises(DownloadError, match=r"cannot reach 127\.0\.0\.1"):
            download(f"http://127.0.0.1:{free.getsockname()[1]}/x.zip", target)


def test_silent_server_times_out(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x.zip"
        with pytest.raises(DownloadError, match="timed out"):
            download(url, target, timeout=0.02)


def test_other_schemes_are_refused(target: Path) -> None:
    with pytest.raises(DownloadError, match="only http"):
        download("file:///etc/passwd", target)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk(site: Site, target: Path) -> None:
    target.parent.mkdir()
    (target.parent / "set.zip.part").symlink_to("/dev/full")
    with pytest.raises(DownloadError, match="No space left on device"):
        download(site.url, target)


FILES = {"Set/train.txt": b"1 2 3\n0 0:1\n", "Set/test.txt": b"1 2 3\n1 1:1\n"}


def zip_bytes(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tar_bytes(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


PACKED = {
    "zip": zip_bytes(FILES),
    "tar": tar_bytes(FILES, "w"),
    "tar.gz": tar_bytes(FILES),
    "tar.bz2": tar_bytes(FILES, "w:bz2"),
}


@pytest.mark.parametrize("kind", PACKED)
def test_extract_returns_the_files(kind: str, tmp_path: Path) -> None:
    archive = tmp_path / "archive"  # recognised by its content, not by its name
    archive.write_bytes(PACKED[kind])
    files = extract(archive, tmp_path / "out")
    assert files == [tmp_path / "out" / name for name in sorted(FILES)]
    assert [file.read_bytes() for file in files] == [FILES[name] for name in sorted(FILES)]


def test_extract_copies_plain_files(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    plain.write_bytes(b"1 2 3\n")
    packed.write_bytes(gzip.compress(b"1 2 3\n"))
    for file in (plain, packed):
        assert extract(file, tmp_path / "out") == [tmp_path / "out" / file.name]
        assert (tmp_path / "out" / file.name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize("name", ["../evil.txt", "/evil.txt", "a/../../evil.txt", "..\\evil.txt"])
@pytest.mark.parametrize("pack", [zip_bytes, tar_bytes])
def test_extract_refuses_to_leave_the_folder(name: str, pack, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(pack({name: b"evil"}))
    with pytest.raises(DataError, match="outside"):
        extract(archive, tmp_path / "out")
    assert not list(tmp_path.rglob("evil.txt"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_extract_refuses_links_and_devices_in_tar(kind: bytes, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with tarfile.open(archive, "w") as opened:
        member = tarfile.TarInfo("link")
        member.type, member.linkname = kind, "/etc/passwd"
        opened.addfile(member)
    with pytest.raises(DataError, match="link"):
        extract(archive, tmp_path / "out")


def test_extract_refuses_links_in_zip(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with zipfile.ZipFile(archive, "w") as opened:
        member = zipfile.ZipInfo("link")
        member.external_attr = 0o120777 << 16
        opened.writestr(member, "/etc/passwd")
    with pytest.raises(DataError, match="link"):
        extract(archive, tmp_path / "out")


def test_extract_names_damaged_and_unknown_files(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.zip"
    packed = bytearray(PACKED["zip"])
    packed[45] ^= 0xFF  # inside the first member's compressed bytes
    damaged.write_bytes(packed)
    with pytest.raises(DataError, match="damaged") as caught:
        extract(damaged, tmp_path / "out")
    assert caught.value.path == damaged
    unknown = tmp_path / "unknown.rar"
    unknown.write_bytes(b"Rar!")
    with pytest.raises(DataError, match="expected a zip or tar"):
        extract(unknown, tmp_path / "out")
    with pytest.raises(DataError, match="No such file"):
        extract(tmp_path / "absent.txt", tmp_path / "out")


@pytest.fixture
def public(site: Site, monkeypatch: pytest.MonkeyPatch) -> catalogue.PublicSet:
    """Serve the catalogue's EURLex-4K from loopback."""
    site.body = PACKED["zip"]
    local = replace(catalogue.find("eurlex-4k"), url=site.url)
    monkeypatch.setitem(catalogue.PUBLIC_SETS, local.name, local)
    return local


def test_get_fetches_once(public: catalogue.PublicSet, site: Site, tmp_path: Path) -> None:
    folder = get("EURLex-4K", tmp_path / "data")
    assert folder == tmp_path / "data" / public.name
    assert (folder / "Set/train.txt").read_bytes() == FILES["Set/train.txt"]
    assert get("eurlex-4k", tmp_path / "data") == folder
    assert len(site.seen) == 1
    assert not list((tmp_path / "data").glob("*unpacking"))


def test_get_from_a_file_by_hand(tmp_path: Path) -> None:
    archive = tmp_path / "fetched.zip"
    archive.write_bytes(PACKED["zip"])
    folder = get("bibtex", tmp_path / "data", from_file=archive)
    assert (folder / "Set/test.txt").exists()
    with pytest.raises(DownloadError, match="there is no file"):
        get("delicious", tmp_path / "data", from_file=tmp_path / "absent.zip")


def test_get_leaves_no_folder_behind_a_damaged_archive(tmp_path: Path) -> None:
    archive = tmp_path / "damaged.zip"
    archive.write_bytes(b"neither")
    with pytest.raises(DataError):
        get("bibtex", tmp_path / "data", from_file=archive)
    assert list((tmp_path / "data").iterdir()) == []


def test_get_explains_how_to_do_it_by_hand(
    public: catalogue.PublicSet, site: Site, tmp_path: Path
) -> None:
    site.content_type = "text/html"
    with pytest.raises(DownloadError, match="web page") as caught:
        get(public.name, tmp_path)
    assert f"{public.page} and run: labelspace data get eurlex-4k --from FILE" in str(caught.value)
    with pytest.raises(DownloadError, match="no direct address of Bibtex is known"):
        get("bibtex", tmp_path)


def test_get_names_a_file_in_the_way(tmp_path: Path) -> None:
    archive = tmp_path / "fetched.zip"
    archive.write_bytes(PACKED["zip"])
    with pytest.raises(DownloadError, match="cannot write"):
        get("bibtex", archive, from_file=archive)


def test_get_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="eurlex-4k"):
        get("eurlex4k", tmp_path)
