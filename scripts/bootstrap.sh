#!/usr/bin/env bash
# Installs what building strata needs and this machine lacks: Debian packages, then the engine (libtorch 2.15, from
# PyPI's torch wheel, into the user's cache folder; see DESIGN.md, 3.1). Prints nothing when nothing is missing.
#
#   scripts/bootstrap.sh [clang | fuzz | cuda]   also clang (for the preset thread-safety), or clang and its libFuzzer (fuzz);
#                                                the engine with its CUDA part (2.7 GB to download), for the preset cuda
#
#   STRATA_NO_APT=1     leave Debian packages alone; say what is missing
#   TORCH_ROOT=DIR      use the libtorch in DIR
#   STRATA_WHEELS=DIR   take the wheels of scripts/engine.txt (engine_cuda.txt) from DIR instead of PyPI
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
ls /usr/include/curl/curl.h /usr/include/*/curl/curl.h >/dev/null 2>&1 || optional+=(libcurl4-openssl-dev)
have_header zip.h || optional+=(libzip-dev)
have_header farmhash.h || optional+=(libfarmhash-dev)
have_header CLI/CLI.hpp || optional+=(libcli11-dev)
have ip || [ -x /usr/sbin/ip ] || optional+=(iproute2)
# For tests: `strata launch --hosts` over a server that they start.
have sshd || [ -x /usr/sbin/sshd ] || optional+=(openssh-server)
have ssh || optional+=(openssh-client)
ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || optional+=(libfaketime)
have_header gtest/gtest.h || optional+=(libgtest-dev)
have_header nlohmann/json.hpp || optional+=(nlohmann-json3-dev)

case "${1:-}" in clang | fuzz) have clang++ || optional+=(clang) ;; esac
if [ "${1:-}" = fuzz ]; then
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

cuda=()
[ "${1:-}" != cuda ] || cuda=(--cuda)
find_engine() {
  cmake ${TORCH_ROOT:+-DTORCH_ROOT="$TORCH_ROOT"} ${cuda:+-DSTRATA_CUDA=ON} -P cmake/FindStrataTorch.cmake
}

if engine_error=$(find_engine 2>&1 >/dev/null); then
  exit 0
fi
[ -z "${TORCH_ROOT:-}" ] || die "TORCH_ROOT=$TORCH_ROOT: ${engine_error##*$'\n'}"

have python3 && python3 -m pip --version >/dev/null 2>&1 || {
  if [ -z "${STRATA_NO_APT:-}" ] && have apt-get; then
    apt_install python3-pip || die "apt-get could not install python3-pip"
  fi
}
scripts/install_engine.sh "${cuda[@]}" >/dev/null
find_engine >/dev/null
