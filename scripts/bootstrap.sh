#!/usr/bin/env bash
# Installs what building strata needs and this machine lacks: Debian packages, then the engine (libtorch 2.15, from
# PyPI's torch wheel, into the user's cache folder; see DESIGN.md, 3.1). Prints nothing when nothing is missing.
#
#   scripts/bootstrap.sh [fuzz]   with fuzz: also clang and its libFuzzer, for the preset of that name
#
#   STRATA_NO_APT=1     leave Debian packages alone; say what is missing
#   TORCH_ROOT=DIR      use the libtorch in DIR
#   STRATA_WHEELS=DIR   take the wheels of scripts/engine.txt from DIR instead of PyPI
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'bootstrap: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }
have_header() { [ -e "/usr/include/$1" ] || [ -e "/usr/local/include/$1" ]; }

# What a build cannot do without, and what makes it whole: Debian's package, then how to see that it is there.
required=()
optional=()
have c++ || required+=(g++)
have make || required+=(make)
have cmake || required+=(cmake)
have ninja || required+=(ninja-build)
have ccache || optional+=(ccache)
have ld.lld || optional+=(lld)
have_header openssl/ssl.h || optional+=(libssl-dev)
have_header ucp/api/ucp.h || optional+=(libucx-dev)
have mpicxx || optional+=(libopenmpi-dev)
have mpirun || optional+=(openmpi-bin)
have_header zlib.h || optional+=(zlib1g-dev)
have_header jpeglib.h || optional+=(libjpeg-dev)
have_header png.h || optional+=(libpng-dev)
have_header hdf5/serial/hdf5.h || have_header hdf5.h || optional+=(libhdf5-dev)
have_header zip.h || optional+=(libzip-dev)
have_header CLI/CLI.hpp || optional+=(libcli11-dev)
have ip || [ -x /usr/sbin/ip ] || optional+=(iproute2)
ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || optional+=(libfaketime)
have_header gtest/gtest.h || optional+=(libgtest-dev)
have_header nlohmann/json.hpp || optional+=(nlohmann-json3-dev)

if [ "${1:-}" = fuzz ]; then
  have clang++ || optional+=(clang)
  # Debian names the run-time libraries after clang's version.
  if ! ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-x86_64.a >/dev/null 2>&1; then
    llvm=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\).*/\1/p' | head -n 1)
    optional+=("libclang-rt-${llvm:-14}-dev")
  fi
fi

apt_install() {
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    have sudo || die "missing: $*; as root, run: apt-get install $*"
    sudo=(sudo)
  fi
  say "installing Debian packages: $*"
  local log
  log=$(mktemp)
  # --no-upgrade: what the machine has stays as it is.
  if ! { "${sudo[@]}" apt-get update -qq &&
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends --no-upgrade \
      -o DPkg::Lock::Timeout=300 "$@"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

install_packages() {
  [ $# -gt 0 ] || return 0
  if [ -n "${STRATA_NO_APT:-}" ] || ! have apt-get; then
    if [ ${#required[@]} -gt 0 ]; then
      die "missing: $*. This script installs with apt-get only; install them with your system's package manager" \
        "(a C++20 compiler, CMake >= 3.25, Ninja; the rest is optional), and run make again"
    fi
    # Said once a checkout, not at every make.
    if [ ! -e build/.optional-said ]; then
      say "going on without: $* (optional; CMake says what each leaves out)"
      mkdir -p build && touch build/.optional-said
    fi
    return 0
  fi
  apt_install "$@" || die "apt-get could not install: $*"
}

install_packages "${required[@]}" "${optional[@]}"

cmake_version=$(cmake --version | sed -n '1s/.* //p')
if [ "$(printf '%s\n' 3.25 "$cmake_version" | sort -V | head -n 1)" != 3.25 ]; then
  die "CMake is $cmake_version; strata needs 3.25 or newer (pip install cmake has it)"
fi

find_engine() { cmake ${TORCH_ROOT:+-DTORCH_ROOT="$TORCH_ROOT"} -P cmake/FindStrataTorch.cmake; }

if engine_error=$(find_engine 2>&1 >/dev/null); then
  exit 0
fi
[ -z "${TORCH_ROOT:-}" ] || die "TORCH_ROOT=$TORCH_ROOT: ${engine_error##*$'\n'}"

# The engine. One process at a time; the folder appears under its name only when it is complete.
[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
  die "the pinned libtorch is for Linux on x86-64; install torch 2.11 to 2.15 (pip install torch), or set TORCH_ROOT"
version=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' scripts/engine.txt)
cache="${XDG_CACHE_HOME:-$HOME/.cache}/strata/engine"
mkdir -p "$cache"
exec 9>"$cache/.lock"
if have flock && ! flock -n 9; then
  say "another process is installing libtorch into $cache; waiting for it"
  flock 9
fi
if [ -d "$cache/torch-$version" ]; then
  find_engine >/dev/null && exit 0 # the other process has done it
fi

have python3 && python3 -m pip --version >/dev/null 2>&1 || {
  if [ -n "${STRATA_NO_APT:-}" ] || ! have apt-get; then
    die "libtorch is missing, and python3 with pip, which would download it; install pip, or set TORCH_ROOT"
  fi
  apt_install python3-pip || die "apt-get could not install python3-pip"
}

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
  --require-hashes "${source[@]}" -r scripts/engine.txt -d "$partial/wheels" ||
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
mv "$partial/engine" "$cache/torch-$version"
find_engine >/dev/null
