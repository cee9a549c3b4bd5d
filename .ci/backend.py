"""The build backend: setuptools, with archives that are the same bytes for the same files. Times in them are
``SOURCE_DATE_EPOCH`` (else 1980); owners, modes and order do not depend on who builds."""

import gzip
import io
import os
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
        for name in sorted(old.namelist(), key=lambda n: (".dist-info/" in n, n)):  # as wheels want it
            info = zipfile.ZipInfo(name, time.gmtime(when)[:6])
            info.external_attr, info.compress_type = 0o100644 << 16, zipfile.ZIP_DEFLATED
            new.writestr(info, old.read(name))
    return out.getvalue()


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
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return out.getvalue()
