#!/usr/bin/env bash
# Installs the engine, libtorch of the version that engine.txt beside this script pins, into the user's cache folder, and
# prints its folder: PyPI's torch wheel without its dependencies. One process at a time; the folder appears under its name
# only when it is complete. `strata engine` and scripts/bootstrap.sh run it where they find none.
#
#   scripts/install_engine.sh [--cuda]   --cuda: with the CUDA part and all that it loads (engine_cuda.txt), in a folder of
#                                        its own, torch-VERSION-cuda, which builds with STRATA_CUDA=ON find
#
#   STRATA_WHEELS=DIR   take the wheels from DIR instead of PyPI
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

say() { printf 'engine: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
  die "the pinned libtorch is for Linux on x86-64; install torch (pip install torch), or set TORCH_ROOT"
version=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$here/engine.txt")
case "${1:-}" in
  '') pins=engine.txt name=torch-$version whole=libtorch_cpu.so libraries=(torch_cpu) kib=1400000 download='550 MB' ;;
  --cuda)
    pins=engine_cuda.txt name=torch-$version-cuda whole=libtorch_cuda.so libraries=(torch_cuda torch_cuda_linalg)
    kib=7000000 download='2.7 GB'
    ;;
  *) die "got $1; expected --cuda, or nothing" ;;
esac
cache="${XDG_CACHE_HOME:-$HOME/.cache}/strata/engine"
mkdir -p "$cache"
exec 9>"$cache/.lock"
if have flock && ! flock -n 9; then
  say "another process is installing libtorch into $cache; waiting for it"
  flock 9
fi
is_whole() { [ -e "$cache/$name/torch/lib/$whole" ]; }
if is_whole; then # by another process
  echo "$cache/$name/torch"
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
[ "$free_kib" -gt "$kib" ] || die "$cache needs $((kib / 1000)) MB for libtorch and has $((free_kib / 1024)) MB free"

if [ -n "${STRATA_WHEELS:-}" ]; then
  source=(--no-index --find-links "$STRATA_WHEELS")
  say "unpacking libtorch $version from $STRATA_WHEELS into $cache/$name"
else
  source=()
  say "downloading libtorch $version ($download, once) into $cache/$name"
fi
mkdir "$partial/wheels" "$partial/tmp" "$partial/engine"
TMPDIR="$partial/tmp" python3 -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps \
  --only-binary=:all: --python-version 3.11 --implementation cp --abi cp311 --abi none \
  --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_25_x86_64 \
  --platform manylinux_2_18_x86_64 --platform manylinux2014_x86_64 --platform manylinux2010_x86_64 \
  --require-hashes "${source[@]}" -r "$here/$pins" -d "$partial/wheels" ||
  die "could not download libtorch; is PyPI reachable? (A proxy: set https_proxy. Wheels at hand: STRATA_WHEELS=DIR)"

# Without --cuda the CPU part alone: half of the wheel is CUDA kernels. Of NVIDIA's wheels the libraries, less those that
# nothing here loads. A wheel is removed when it is unpacked.
python3 - "$partial" "$pins" <<'PYTHON'
import pathlib, re, sys, zipfile

partial = pathlib.Path(sys.argv[1])
libraries = "c10|torch_cpu|torch|gomp|gfortran|torch_global_deps"
if sys.argv[2] == "engine_cuda.txt":
    libraries += "|c10_cuda|torch_cuda|torch_cuda_linalg|torch_nvshmem|caffe2_nvrtc"
wanted = re.compile(rf"torch/include/|torch/lib/lib({libraries})\.so|torch/version\.py|"
                    r"nvidia/[^/]+/lib/(?!lib(cufftw|cusolverMg|nvblas|nvperf|pcsampling|checkpoint|cufile_rdma))[^/]*\.so|"
                    r"[^/]*\.dist-info/(licenses/|LICENSE|License|NOTICE|METADATA)")
for wheel in sorted((partial / "wheels").iterdir()):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(partial / "engine", [name for name in archive.namelist() if wanted.match(name)])
    wheel.unlink()
PYTHON
# Does the loader find everything?
for library in "${libraries[@]}"; do
  if ldd "$partial/engine/torch/lib/lib$library.so" | grep 'not found' >&2; then
    die "lib$library.so misses the libraries above"
  fi
done
rm -rf "${cache:?}/$name" # not whole
mv "$partial/engine" "$cache/$name"
echo "$cache/$name/torch"
