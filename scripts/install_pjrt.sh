#!/usr/bin/env bash
# Fetches the PJRT plugin that strata's tests compile with: XLA for CPUs, a wheel on PyPI. It is checked against a
# pinned hash, and it is no part of strata. Its publisher was not verified: it is for tests only.
#
#   export STRATA_PJRT_PLUGIN="$(scripts/install_pjrt.sh)"
#
# Prints the plugin's path; a second run downloads nothing. STRATA_PJRT names the folder (default: ~/.cache/strata/pjrt).
set -euo pipefail

version=0.0.1
sha256=55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc
folder="${STRATA_PJRT:-${XDG_CACHE_HOME:-$HOME/.cache}/strata/pjrt}"
python="${PYTHON:-python3}"
plugin="$folder/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"

say() { printf 'pjrt: %s\n' "$*" >&2; }

wheel="$folder/xla_cpu_pjrt-$version-py3-none-manylinux_2_27_x86_64.whl"
if [ ! -f "$wheel" ] || [ ! -f "$plugin" ]; then
  mkdir -p "$folder"
  say "fetching xla-cpu-pjrt $version (63 MB)"
  "$python" -m pip download --quiet --no-deps --only-binary=:all: --dest "$folder" "xla-cpu-pjrt==$version" >&2
fi
if ! printf '%s  %s\n' "$sha256" "$wheel" | sha256sum --check --status; then
  say "$wheel has another SHA-256 than $sha256: it is not the file that was tried; remove it"
  exit 1
fi
[ -f "$plugin" ] || "$python" -m zipfile -e "$wheel" "$folder"
printf '%s\n' "$plugin"
