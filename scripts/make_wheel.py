#!/usr/bin/env python3
"""Packs an installed tree as a wheel, which pip unpacks into the environment's prefix.

    scripts/make_wheel.py TREE VERSION FOLDER

TREE is a prefix that `cmake --install` has filled; the wheel is written to FOLDER, and its path printed. Needs nothing
but Python. The wheel has no Python code: its files lie under .data/data, which pip puts into the prefix as they are.
"""
import base64
import hashlib
import os
import pathlib
import stat
import sys
import time
import zipfile

# The GNU C library of Debian 12, on which packages are built.
TAG = "py3-none-manylinux_2_36_x86_64"
METADATA = """\
Metadata-Version: 2.1
Name: strata-cpp
Version: {version}
Summary: tf.distribute.Strategy for C++ programs on libtorch: headers, libstrata.so, CMake package, the command strata
License: Apache-2.0
Platform: linux_x86_64
Description-Content-Type: text/markdown

C++ headers, `libstrata.so`, a CMake package, a pkg-config file and the command `strata`, under the prefix of the
environment. libtorch is not part of it: `strata engine` finds or downloads the version that it was built with.

It links these Debian packages: {packages}; for `s3://` and `gs://` it opens libcurl4's library.
"""
PACKAGES = "libssl3 libucx0 libopenmpi3 zlib1g libjpeg62-turbo libpng16-16 libhdf5-103-1 libhdf5-hl-100 libzip4 libfarmhash0"


def zip_entry(name: str, mode: int, when: tuple) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, date_time=when)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | mode) << 16
    return entry


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    tree, version, folder = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    if not (tree / "include/strata/strata.h").exists():
        print(f"make_wheel: got {tree}; expected a prefix with include/strata/strata.h", file=sys.stderr)
        return 2
    name = f"strata_cpp-{version}"
    # SOURCE_DATE_EPOCH: the same tree gives the same bytes.
    when = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")))[:6]
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{TAG}.whl"
    record = []
    with zipfile.ZipFile(wheel, "w") as archive:

        def add(path: str, data: bytes, mode: int = 0o644) -> None:
            archive.writestr(zip_entry(path, mode, when), data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}")

        for file in sorted(tree.rglob("*")):
            if file.is_dir():
                continue
            # pip unpacks no links: libstrata.so becomes a linker script that names the library.
            data = f"INPUT({os.readlink(file)})\n".encode() if file.is_symlink() else file.read_bytes()
            add(f"{name}.data/data/{file.relative_to(tree)}", data, file.stat().st_mode & 0o777)
        info = f"{name}.dist-info"
        add(f"{info}/METADATA", METADATA.format(version=version, packages=PACKAGES).encode())
        add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: make_wheel\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode())
        for text in ("LICENSE", "NOTICE"):
            add(f"{info}/{text}", (tree / "share/doc/strata" / text).read_bytes())
        record.append(f"{info}/RECORD,,")
        archive.writestr(zip_entry(f"{info}/RECORD", 0o644, when), "\n".join(record) + "\n")
    print(wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
