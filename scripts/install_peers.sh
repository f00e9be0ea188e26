#!/usr/bin/env bash
# Installs the systems that `strata bench` measures beside strata: Python environments with PyTorch,
# TensorFlow and JAX, and mimalloc for the tuned libtorch loop. Versions are pinned; a second run
# does nothing. A peer that cannot be installed is skipped here and reported as missing by the bench.
#
#   scripts/install_peers.sh [torch] [tf] [jax] [mimalloc]      default: all
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
  [torch]="torch==2.15.0 numpy==2.2.6 pillow==12.0.0"
  [tf]="tensorflow-cpu==2.21.0 tf-keras==2.21.0"
  [jax]="jax==0.10.2 jaxlib==0.10.2"
)
declare -A probe=(
  [torch]="import torch, numpy, PIL; assert torch.__version__.startswith('2.15.0')"
  [tf]="import tensorflow as tf, tf_keras; assert tf.__version__.startswith('2.21')"
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

install_mimalloc() {
  [ -n "$(mimalloc_library)" ] && return 0
  local sudo=""
  [ "$(id -u)" = 0 ] || sudo="sudo"
  if command -v apt-get >/dev/null && $sudo apt-get install -y -qq libmimalloc2.0 >&2; then
    return 0
  fi
  say "mimalloc: SKIPPED; libtorch-1-tuned will be reported as missing (Debian: libmimalloc2.0)"
  return 1
}

failed=0
[ $# -gt 0 ] || set -- mimalloc jax tf torch
for name in "$@"; do
  case "$name" in
    torch | tf | jax) install_environment "$name" || failed=$((failed + 1)) ;;
    mimalloc) install_mimalloc || failed=$((failed + 1)) ;;
    *) say "no such peer: $name (have: torch tf jax mimalloc)"; exit 2 ;;
  esac
done
[ "$failed" = 0 ] || say "$failed of $# peers could not be installed; the bench reports them as missing"
exit 0
