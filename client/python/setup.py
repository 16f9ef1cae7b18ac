"""Makes what the package knows of the API from the .proto files, when it is built.

For each file a module X_pb2.py that holds its descriptor, and X_pb2.pyi with its types. protoc's
own X_pb2.py is not used: it refuses protobuf releases older than, or far newer than, the protoc
that made it. A descriptor has no such bounds, so that one wheel serves all releases that
pyproject.toml names.
"""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
PACKAGE = Path("stageload_client") / "_wire"
MODULE = '''"""Of {name}; made by setup.py."""

from ._load import load

load({descriptor!r}, globals())
'''


def proto_folder() -> Path:
    """In a source distribution they lie beside this file, else in the project's own folder."""
    for folder in (HERE / "proto", HERE.parent.parent / "proto"):
        if (folder / "stageload" / "v1").is_dir():
            return folder
    sys.exit(f"setup.py: no proto/stageload/v1 in {HERE} or in {HERE.parent.parent}")


def run_protoc(protos: Path, names: "list[str]", out: str) -> bytes:
    from grpc_tools import protoc

    files = os.path.join(out, "files")
    arguments = ["protoc", f"-I{protos}", f"--pyi_out={out}", f"--descriptor_set_out={files}"]
    if protoc.main([*arguments, *names]) != 0:
        sys.exit("setup.py: protoc failed")
    return Path(files).read_bytes()


def generate(target: Path) -> None:
    from google.protobuf import descriptor_pb2

    protos = proto_folder()
    names = sorted(str(path.relative_to(protos)) for path in protos.glob("stageload/v1/*.proto"))
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as out:
        files = descriptor_pb2.FileDescriptorSet.FromString(run_protoc(protos, names, out))
        for file in files.file:
            stem = Path(file.name).stem + "_pb2"
            text = MODULE.format(name=file.name, descriptor=file.SerializeToString())
            (target / f"{stem}.py").write_text(text)
            types = Path(out, "stageload", "v1", f"{stem}.pyi").read_text()
            # The package `stageload` is another project's.
            types = re.sub(
                r"\bfrom stageload\.v1 import", "from stageload_client._wire import", types
            )
            (target / f"{stem}.pyi").write_text(types)


class BuildWithMessages(build_py):
    def run(self) -> None:
        editable = getattr(self, "editable_mode", False)
        generate((HERE / "src" if editable else Path(self.build_lib)) / PACKAGE)
        super().run()


class SdistWithProtos(sdist):
    def make_release_tree(self, base_dir: str, files: "list[str]") -> None:
        super().make_release_tree(base_dir, files)
        target = Path(base_dir) / "proto" / "stageload" / "v1"
        target.mkdir(parents=True, exist_ok=True)
        for path in (proto_folder() / "stageload" / "v1").glob("*.proto"):
            shutil.copyfile(path, target / path.name)


setup(cmdclass={"build_py": BuildWithMessages, "sdist": SdistWithProtos})
