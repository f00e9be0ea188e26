#!/usr/bin/env bash
# Installs the engine, libtorch of the version that engine.txt beside this script pins, into the user's cache folder, and
# prints its folder: PyPI's torch wheel without its dependencies. One process at a time; the folder appears under its name
# only when it is complete. `strata engine` and scripts/bootstrap.sh run it where they find none.
#
#   STRATA_WHEELS=DIR   take the wheels from DIR instead of PyPI
set -euo pipefail
pins=$(cd "$(dirname "$0")" && pwd)/engine.txt

say() { printf 'engine: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
  die "the pinned libtorch is for Linux on x86-64; install torch (pip install torch), or set TORCH_ROOT"
version=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$pins")
cache="${XDG_CACHE_HOME:-$HOME/.cache}/strata/engine"
mkdir -p "$cache"
exec 9>"$cache/.lock"
if have flock && ! flock -n 9; then
  say "another process is installing libtorch into $cache; waiting for it"
  flock 9
fi
is_whole() { [ -e "$cache/torch-$version/torch/lib/libtorch_cpu.so" ]; }
if is_whole; then # by another process
  echo "$cache/torch-$version/torch"
  exit 0
fi

have python3 && python3 -m pip --version >/dev/null 2>&1 ||
  die "libtorch is missing, and python3 with pip, which would download it; install pip (Debian: apt-get install" \
    "python3-pip), or set TORCH_ROOT"

rm -rf "$cache"/.partial.* # of runs that were killed: we hold the lock
partial="$cache/.partial.$$"
mkdir "$partial"
trap 'rm -rf "$partial"' EXIT
free_kib=$(df -Pk "$cache" | awk 'NR == 2 {print $4}')
[ "$free_kib" -gt 1400000 ] || die "$cache needs 1.4 GB for libtorch and has $((free_kib / 1024)) MB"

if [ -n "${STRATA_WHEELS:-}" ]; then
  source=(--no-index --find-links "$STRATA_WHEELS")
  say "unpacking libtorch $version from $STRATA_WHEELS into $cache/torch-$version"
else
  source=()
  say "downloading libtorch $version (550 MB, once) into $cache/torch-$version"
fi
mkdir "$partial/wheels" "$partial/tmp" "$partial/engine"
TMPDIR="$partial/tmp" python3 -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps \
  --only-binary=:all: --python-version 3.11 --implementation cp --abi cp311 --abi none \
  --platform manylinux_2_28_x86_64 --platform manylinux_2_25_x86_64 --platform manylinux2014_x86_64 \
  --require-hashes "${source[@]}" -r "$pins" -d "$partial/wheels" ||
  die "could not download libtorch; is PyPI reachable? (A proxy: set https_proxy. Wheels at hand: STRATA_WHEELS=DIR)"

# The CPU part alone: half of the wheel is CUDA kernels, which want the full install of torch.
python3 - "$partial" <<'PYTHON'
import pathlib, re, sys, zipfile

partial = pathlib.Path(sys.argv[1])
wanted = re.compile(r"torch/include/|torch/lib/lib(c10|torch_cpu|torch|gomp|gfortran|torch_global_deps)\.so|"
                    r"torch/version\.py|nvidia/cu13/(lib|include)/|[^/]*\.dist-info/(licenses/|LICENSE|NOTICE|METADATA)")
for wheel in sorted((partial / "wheels").iterdir()):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(partial / "engine", [name for name in archive.namelist() if wanted.match(name)])
PYTHON
# Does the loader find everything?
if ldd "$partial/engine/torch/lib/libtorch_cpu.so" | grep 'not found' >&2; then
  die "libtorch_cpu.so misses the libraries above"
fi
rm -rf "$cache/torch-$version" # not whole
mv "$partial/engine" "$cache/torch-$version"
echo "$cache/torch-$version/torch"
