#!/usr/bin/env bash
# Installs the systems that `strata bench` measures beside strata: Python environments with PyTorch,
# TensorFlow, an old TensorFlow for its Estimator (Python 3.11 at most) and JAX, mimalloc for the tuned libtorch loop, Open MPI with
# a program of strata's, and iperf3.
# Versions are pinned, Debian's packages aside; a second run does nothing. A peer that cannot be installed is skipped here and reported as missing by the bench.
#
#   scripts/install_peers.sh [torch] [tf] [tf_estimator] [jax] [mimalloc] [mpi] [iperf3]      default: all
#
# STRATA_PEERS   folder of the environments (default: ~/.cache/strata/peers)
# STRATA_WHEELS  extra folder with wheels that pip may use instead of downloading
set -u

cache="${XDG_CACHE_HOME:-$HOME/.cache}/strata"
peers="${STRATA_PEERS:-$cache/peers}"
wheels="${STRATA_WHEELS:-$cache/wheels}"
python="${PYTHON:-python3}"

say() { printf 'peers: %s\n' "$*" >&2; }

declare -A packages=(
  [torch]="torch==2.15.0 torchvision==0.29.2 numpy==2.2.6 pillow==12.0.0"
  [tf]="tensorflow-cpu==2.21.0 tf-keras==2.21.0"
  [tf_estimator]="tensorflow-cpu==2.15.1 numpy==1.26.4"
  [jax]="jax==0.10.2 jaxlib==0.10.2"
)
declare -A probe=(
  [torch]="import torch, torchvision, numpy, PIL; assert torch.__version__.startswith('2.15.0')"
  [tf]="import tensorflow as tf, tf_keras; assert tf.__version__.startswith('2.21')"
  [tf_estimator]="import tensorflow as tf; assert tf.__version__.startswith('2.15'); tf.estimator.Estimator"
  [jax]="import jax; assert jax.__version__ == '0.10.2'; jax.devices('cpu')"
)

install_environment() {
  local name="$1" home="$peers/$1" stamp="$peers/$1/.strata-peer"
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "${packages[$name]}" ]; then
    return 0
  fi
  say "$name: installing ${packages[$name]} into $home (this takes minutes)"
  mkdir -p "$peers"
  if ! "$python" -m venv --clear "$home"; then
    say "$name: SKIPPED, $python -m venv failed (Debian: apt-get install python3-venv)"
    return 1
  fi
  local find_links=()
  [ -d "$wheels" ] && find_links=(--find-links "$wheels")
  # shellcheck disable=SC2086  # the package list is split on purpose
  if ! "$home/bin/pip" install --quiet --no-cache-dir "${find_links[@]}" ${packages[$name]} >&2; then
    say "$name: SKIPPED, pip install failed"
    return 1
  fi
  if ! "$home/bin/python" -c "${probe[$name]}" 2>"$home/probe.log"; then
    say "$name: SKIPPED, it does not start: $(tail -n 1 "$home/probe.log")"
    return 1
  fi
  printf '%s' "${packages[$name]}" >"$stamp"
  say "$name: ready"
}

mimalloc_library() {
  ls /usr/lib/*/libmimalloc.so.2* /usr/lib/libmimalloc.so.2* /usr/local/lib/libmimalloc.so.2* 2>/dev/null | head -n 1
}

# What the machine has stays as it is.
apt_install() {
  local sudo=""
  [ "$(id -u)" = 0 ] || sudo="sudo"
  command -v apt-get >/dev/null &&
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-upgrade \
      -o DPkg::Lock::Timeout=300 "$@" >&2
}

install_mimalloc() {
  [ -n "$(mimalloc_library)" ] && return 0
  apt_install libmimalloc2.0 && return 0
  say "mimalloc: SKIPPED; libtorch-1-tuned will be reported as missing (Debian: libmimalloc2.0)"
  return 1
}

# Open MPI's own collectives, measured by a program of strata's that mpicc compiles.
install_mpi() {
  local source program="$peers/mpi/strata-peer-mpi"
  source="$(dirname "$0")/../benchmarks/peers/mpi_collective.c"
  if ! { command -v mpicc && command -v mpirun; } >/dev/null && ! apt_install openmpi-bin libopenmpi-dev; then
    say "mpi: SKIPPED; Open MPI will be reported as missing (Debian: openmpi-bin libopenmpi-dev)"
    return 1
  fi
  [ "$program" -nt "$source" ] && return 0
  mkdir -p "$peers/mpi"
  if ! mpicc -O2 -o "$program" "$source" >&2; then
    say "mpi: SKIPPED, mpicc failed"
    return 1
  fi
}

install_iperf3() {
  command -v iperf3 >/dev/null && return 0
  apt_install iperf3 && return 0
  say "iperf3: SKIPPED; what shaped lines carry will be reported as missing (Debian: iperf3)"
  return 1
}

failed=0
[ $# -gt 0 ] || set -- mimalloc mpi iperf3 jax tf tf_estimator torch
for name in "$@"; do
  case "$name" in
    torch | tf | tf_estimator | jax) install_environment "$name" || failed=$((failed + 1)) ;;
    mpi) install_mpi || failed=$((failed + 1)) ;;
    iperf3) install_iperf3 || failed=$((failed + 1)) ;;
    mimalloc) install_mimalloc || failed=$((failed + 1)) ;;
    *) say "no such peer: $name (have: torch tf tf_estimator jax mimalloc mpi iperf3)"; exit 2 ;;
  esac
done
[ "$failed" = 0 ] || say "$failed of $# peers could not be installed; the bench reports them as missing"
exit 0
