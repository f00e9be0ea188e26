#!/usr/bin/env bash
# Runs the fuzz targets of the preset `fuzz` (make fuzz builds them), and keeps count.
#
#   scripts/fuzz.sh run SECONDS [TARGET ...]   all of them, or these, each for its share
#   scripts/fuzz.sh fill SECONDS [TARGET ...]  each until it has seen its goal, for at most SECONDS
#   scripts/fuzz.sh counts                     the inputs that each has seen, in all runs, against its goal
#   scripts/fuzz.sh one TARGET FILE            one input, with what a crash has to say
#   scripts/fuzz.sh merge [TARGET ...]         adds what libFuzzer found, and is small, to tests/fuzz/corpus
#   scripts/fuzz.sh record                     adds this machine's counts to those of tests/fuzz/counts.tsv
#
# Counts are added to build/fuzz/counts.tsv, a line a run: target, inputs, crashes, commit; `record` makes them known to
# other machines, a line a target and commit. An input that ends the
# process, leaks, takes more than STRATA_FUZZ_RSS_MB (2048) or more than a second is kept in build/fuzz/found.
# STRATA_FUZZ_JOBS (a core each) targets run at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/fuzz
counts=$build/counts.tsv
recorded=tests/fuzz/counts.tsv
targets=$build/fuzz_targets.tsv
rss_mb=${STRATA_FUZZ_RSS_MB:-2048}
jobs=${STRATA_FUZZ_JOBS:-$(nproc)}
# Short stacks of allocations and a small quarantine: twice as many inputs a second; `one` says the rest.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:handle_abort=1:detect_odr_violation=0:malloc_context_size=3:quarantine_size_mb=8}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$PWD/cmake/sanitizers/leak.txt:print_suppressions=0}
export OMP_NUM_THREADS=1

say() { printf 'fuzz: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 2
}

[ -e "$targets" ] || die "nothing is built; run make fuzz (it wants clang: Debian's clang and libclang-rt-14-dev)"

# All that are built, or those that are named.
chosen() {
  if [ $# -gt 0 ]; then
    printf '%s\n' "$@"
    return
  fi
  while read -r target _; do
    if [ -x "$build/strata_fuzz_$target" ]; then echo "$target"; fi
  done <"$targets"
}

# Whether an input that libFuzzer calls too slow is: alone, in the processor's time. Else the machine was busy.
is_slow() {
  local TIMEFORMAT=%U seconds
  seconds=$({ time timeout 60 "$build/strata_fuzz_$1" -timeout=60 "$2" >/dev/null 2>&1; } 2>&1) || return 0
  awk -v seconds="$seconds" 'BEGIN { exit !(seconds > 3) }' # a second, and the start
}

# run_one TARGET SECONDS [INPUTS]: no more than these.
run_one() {
  local target=$1 seconds=$2 most=${3:--1} length
  length=$(awk -F '\t' -v target="$target" '$1 == target { print $3 }' "$targets")
  local log=$build/log/$target.txt found=$build/found
  mkdir -p "$build/log" "$found" "$build/corpus/$target"
  local dictionary=() status=0 crashes=0
  if [ -e "tests/fuzz/dictionaries/$target.dict" ]; then dictionary=("-dict=tests/fuzz/dictionaries/$target.dict"); fi
  local before
  before=$(find "$found" -name "$target-*" | wc -l)
  # A busy machine holds processes up for more than a second: what is said to be slow is tried again.
  # Entropic schedules cost more than these inputs themselves.
  "$build/strata_fuzz_$target" -max_total_time="$seconds" -runs="$most" -max_len="$length" -entropic=0 \
    -timeout=1 -rss_limit_mb="$rss_mb" -print_final_stats=1 \
    -artifact_prefix="$found/$target-" "${dictionary[@]}" "$build/corpus/$target" "tests/fuzz/corpus/$target" \
    >"$log" 2>&1 || status=$?
  if [ "$status" -eq 72 ]; then status=0; fi # Ctrl-C
  local inputs
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
  inputs=${inputs:-0}
  for file in "$found/$target-timeout-"* "$found/$target-slow-unit-"*; do
    if [ -e "$file" ] && ! is_slow "$target" "$file"; then
      rm "$file"
      status=0
    fi
  done
  if [ "$(find "$found" -name "$target-*" | wc -l)" -gt "$before" ] || [ "$status" -ne 0 ]; then
    crashes=1
    say "$target: $(grep -m 1 -E 'ERROR|runtime error|does not hold|terminate called' "$log" || echo "ended with $status"); see $log and $found/$target-*"
  fi
  printf '%s\t%s\t%s\t%s\n' "$target" "$inputs" "$crashes" "$(git rev-parse --short HEAD 2>/dev/null || echo -)" >>"$counts"
  return "$crashes"
}

# How many inputs a target lacks of its goal.
lacking() {
  touch "$counts"
  awk -F '\t' -v target="$1" '
    FILENAME != ARGV[3] { if ($1 == target) inputs += $2; next }
    $1 == target { print (inputs < $2 ? $2 - inputs : 0) }
  ' "$recorded" "$counts" "$targets"
}

fill_one() {
  local target=$1 end=$((SECONDS + $2)) left most
  while left=$((end - SECONDS)) && [ "$left" -gt 0 ] && most=$(lacking "$target") && [ "$most" -gt 0 ]; do
    run_one "$target" "$left" "$most" || return 1
  done
}

# in_parallel COMMAND SECONDS TARGET ...: COMMAND TARGET SECONDS of each, `jobs` at a time.
in_parallel() {
  local command=$1 seconds=$2 failed=0 running=0 target
  shift 2
  for target in "$@"; do
    if [ "$running" -ge "$jobs" ]; then
      wait -n || failed=1
      running=$((running - 1))
    fi
    "$command" "$target" "$seconds" &
    running=$((running + 1))
  done
  for (( ; running > 0; running--)); do wait -n || failed=1; done
  show_counts
  return "$failed"
}

run() {
  local seconds=$1 list share
  shift
  mapfile -t list < <(chosen "$@")
  share=$((seconds * jobs / ${#list[@]}))
  in_parallel run_one $((share > 0 ? share : 1)) "${list[@]}"
}

fill() {
  local seconds=$1 list
  shift
  mapfile -t list < <(chosen "$@")
  in_parallel fill_one "$seconds" "${list[@]}"
}

show_counts() {
  touch "$counts"
  awk -F '\t' '
    NR == FNR { inputs[$1] += $2; crashes[$1] += $3; next }
    { printf "%-18s %12d of %8d  %s  %d crashes\n", $1, inputs[$1], $2, (inputs[$1] >= $2 ? "done" : "    "), crashes[$1] }
  ' <(cat "$recorded" "$counts") "$targets"
}

record() {
  touch "$counts"
  local sums
  sums=$(cat "$recorded" "$counts" | awk -F '\t' -v OFS='\t' '
    { inputs[$1 OFS $4] += $2; crashes[$1 OFS $4] += $3 }
    END { for (key in inputs) { split(key, at, OFS); print at[1], inputs[key], crashes[key], at[2] } }' | sort)
  printf '%s\n' "$sums" >"$recorded"
  rm "$counts"
}

merge() {
  local target
  for target in $(chosen "$@"); do
    local all=$build/merged/$target
    rm -rf "$all"
    mkdir -p "$all" "$build/corpus/$target"
    "$build/strata_fuzz_$target" -merge=1 -timeout=5 -rss_limit_mb="$rss_mb" "$all" "tests/fuzz/corpus/$target" \
      "$build/corpus/$target" >"$build/log/$target-merge.txt" 2>&1 || die "$target: see $build/log/$target-merge.txt"
    # The shortest: they say most about the format in the fewest bytes.
    find "$all" -type f -size -3 -printf '%s %f\n' | sort -n | head -n 30 | while read -r _ name; do
      if ! ls "tests/fuzz/corpus/$target" | grep -q "${name:0:12}"; then
        cp "$all/$name" "tests/fuzz/corpus/$target/found-${name:0:12}"
      fi
    done
  done
}

case ${1:-} in
run) run "${@:2}" ;;
fill) fill "${@:2}" ;;
counts) show_counts ;;
one) exec "$build/strata_fuzz_$2" -timeout=10 -rss_limit_mb="$rss_mb" "$3" ;;
merge) merge "${@:2}" ;;
record) record ;;
*) die "expected run SECONDS [TARGET ...], fill SECONDS [TARGET ...], counts, one TARGET FILE, merge [TARGET ...] or record" ;;
esac
