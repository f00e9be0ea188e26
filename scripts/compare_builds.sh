#!/usr/bin/env bash
# Trains the same models with two builds and compares the SHA-256 of their weights, optimizer slots and history. For changes
# that must not change a bit: build the tests of both (targets strata_command, strata_multi_worker_trainer, strata_fit_trainer,
# strata_checkpoint_trainer, strata_ps_trainer, strata_defaults_trainer), then
#
#   scripts/compare_builds.sh OLD NEW      folders, as /old/build/release build/release
#
# `strata bench step --against OLD/strata-bench` compares their speed.
set -euo pipefail
[ $# -eq 2 ] && [ -x "$1/strata" ] && [ -x "$2/strata" ] || {
  printf 'compare_builds: got %s; expected two build folders, with the command strata in each\n' "$*" >&2
  exit 2
}
old=$(realpath "$1") new=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# run NAME BUILD FOLDER: one training run. It prints "sha256 <digest>" in a line of its own.
run() {
  local strata=$2/strata folder=$3
  local workers=$2/strata_multi_worker_trainer
  local checkpoints=$2/strata_checkpoint_trainer
  case $1 in
  loop/8-threads) "$workers" loop 8 ;;
  loop/2-processes) "$strata" launch -n 2 -- "$workers" loop 4 ;;
  fit/8-threads) "$workers" fit 8 ;;
  fit/4-processes) "$strata" launch -n 4 -- "$workers" fit 2 ;;
  fit/callbacks) "$2/strata_fit_trainer" "$folder" ;;
  defaults/*) "$2/strata_defaults_trainer" "${1#*/}" 2 ;;
  checkpoint/undisturbed) "$checkpoints" "$folder" ;;
  checkpoint/resumed) # killed in an operation on the disk, and started again
    "$checkpoints" "$folder" --kill_at 60 || true
    "$checkpoints" "$folder"
    ;;
  parameter-servers) "$strata" launch -n 2 --ps 2 -- "$2/strata_ps_trainer" together "$folder" 12 ;;
  esac
}

differ=0
for name in loop/8-threads loop/2-processes fit/8-threads fit/4-processes fit/callbacks defaults/mlp defaults/cnn defaults/lstm \
  defaults/transformer checkpoint/undisturbed checkpoint/resumed parameter-servers; do
  digests=()
  for build in "$old" "$new"; do
    folder=$(mktemp -d "$work/XXXXXX")
    timeout 300 bash -c "$(declare -f run); run \"\$@\"" run "$name" "$build" "$folder" >"$work/log" 2>&1 || true
    digests+=("$(sed -n 's/.*sha256 \([0-9a-f]\{64\}\).*/\1/p' "$work/log" | sort -u | tr '\n' ' ')")
    [ -n "${digests[-1]}" ] || tail -n 5 "$work/log" >&2
  done
  if [ -n "${digests[0]}" ] && [ "${digests[0]}" = "${digests[1]}" ]; then
    printf '%-24s %s\n' "$name" "${digests[0]}"
  else
    printf '%-24s DIFFERS: %s against %s\n' "$name" "${digests[0]:-nothing}" "${digests[1]:-nothing}"
    differ=1
  fi
done
exit $differ
