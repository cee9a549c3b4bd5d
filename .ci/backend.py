"""The build backend: setuptools, with archives that are the same bytes for the same files. Times in them are
``SOURCE_DATE_EPOCH`` (else 1980); owners, modes and order do not depend on who builds. A package page shows
the README without its pictures and links into the repository, which lead nowhere from there."""

import base64
import gzip
import hashlib
import io
import os
import re
import tarfile
import time
import zipfile
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  # the other hooks

EPOCH = 315532800  # 1980, the first year that zip files know


def build_sdist(sdist_directory, config_settings=None):
    """The source archive; its name."""
    name = build_meta.build_sdist(sdist_directory, config_settings)
    path = Path(sdist_directory, name)
    path.write_bytes(same_archive(path.read_bytes(), _when()))
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """The wheel; its name."""
    name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    path = Path(wheel_directory, name)
    path.write_bytes(same_wheel(path.read_bytes(), _when()))
    return name


def _when():
    return int(os.environ.get("SOURCE_DATE_EPOCH", EPOCH))


def same_wheel(archive, when):
    """A zip file with its members in order, of one time and readable by all."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w") as new:
        page = None
        for name in sorted(old.namelist(), key=lambda n: (".dist-info/" in n, n)):  # as wheels want it
            info = zipfile.ZipInfo(name, time.gmtime(when)[:6])
            info.external_attr, info.compress_type = 0o100644 << 16, zipfile.ZIP_DEFLATED
            content = old.read(name)
            if name.endswith(".dist-info/METADATA"):
                content = page = for_a_page(content)
            elif name.endswith(".dist-info/RECORD") and page is not None:
                content = _recorded(content, page)
            new.writestr(info, content)
    return out.getvalue()


def for_a_page(metadata):
    """Metadata whose long description stands alone: pictures of the repository are left out, with the colon
    of the sentence that leads to them; links to its documents are their paths, others their texts. A project
    with a home would name it instead."""
    head, blank, text = metadata.decode().partition("\n\n")
    text = re.sub(r":\n\n!\[[^\]]*\]\((?!https?:)[^)]*\)\n", ".\n", text)
    text = re.sub(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n+", "", text, flags=re.M)
    text = re.sub(r"(?<!!)\[[^\]\[]*\]\((docs/[^)#]*\.md)(?:#[^)]*)?\)", r"`\1`", text)
    text = re.sub(r"(?<!!)\[([^\]\[]*)\]\((?!https?:|mailto:|#)[^)]*\)", r"\1", text)
    return (head + blank + text).encode()


def _recorded(record, metadata):
    """The list of a wheel's files with the digest of that metadata."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(metadata).digest()).rstrip(b"=").decode()
    new = rf"\1,sha256={digest},{len(metadata)}"
    return re.sub(r"^(.*\.dist-info/METADATA),.*$", new, record.decode(), flags=re.M).encode()


def same_archive(archive, when):
    """A .tar.gz with its members in order, of one time and of nobody."""
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=when) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda m: m.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = when, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            content = old.extractfile(member).read() if member.isfile() else b""
            if os.path.basename(member.name) == "PKG-INFO":
                content = for_a_page(content)
                member.size = len(content)
            new.addfile(member, io.BytesIO(content) if member.isfile() else None)
    return out.getvalue()
