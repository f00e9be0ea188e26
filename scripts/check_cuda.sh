#!/usr/bin/env bash
# Checks the preset cuda on this machine, with or without a GPU: installs the engine with its CUDA part where there is none
# (scripts/install_engine.sh --cuda), builds the command, an example and the tests of GPUs, and starts them. With GPUs they
# run on them. Without, each must end soon and well, and say what is missing and how to go on.
#
#   JOBS=n   compilers at a time
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/cuda
jobs=${JOBS:-$(nproc)}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

say() { printf 'check-cuda: %s\n' "$*"; }
fail() {
  say "FAILED: $*"
  sed 's/^/    /' "$log"
  exit 1
}

# run SECONDS COMMAND...: its output is in $log, its exit status in $status; a program that hangs or dies of a signal fails.
run() {
  local limit=$1
  shift
  status=0
  timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1 </dev/null || status=$?
  [ "$status" -ne 124 ] && [ "$status" -ne 137 ] || fail "$* did not end within $limit s"
  [ "$status" -lt 128 ] || fail "$* was killed by signal $((status - 128))"
}
says() { grep -Eq -- "$1" "$log" || fail "its output lacks '$1'"; }

scripts/bootstrap.sh cuda
cmake --preset cuda >"$log" 2>&1 || fail "cmake --preset cuda"
say "$(sed -n 's/^-- strata: //p' "$log"), with its CUDA part"
targets=(strata_command strata_devices strata_example_01_mnist_mirrored strata_gpu_tests)
say "building ${targets[*]}"
cmake --build "$build" -j "$jobs" --target "${targets[@]}"

# Linked, and found by the loader without any variable: so each program sees GPUs where there are some.
for program in strata-devices examples/01_mnist_mirrored strata_gpu_test strata_gpu_keras_test strata_gpu_graphs_test; do
  run 60 ldd "$build/$program"
  ! grep 'not found' "$log" || fail "$program lacks libraries"
  says 'libtorch_cuda\.so'
done

run 120 "$build/strata" devices
[ "$status" -eq 0 ] || fail "strata devices ended with $status"
says '^libtorch .*, with CUDA$'
says '^nccl +[0-9]+\.[0-9]+' # the engine's own
sed 's/^/    /' "$log"

if grep -q '^gpu:0 ' "$log"; then
  say "this machine has GPUs: the example and the tests run on them"
  run 600 "$build/examples/01_mnist_mirrored" --devices gpu:0 --epochs 1
  [ "$status" -eq 0 ] || fail "01_mnist_mirrored --devices gpu:0 ended with $status"
  says 'test accuracy 0\.9'
  run 3600 ctest --preset cuda -L gpu --no-tests=error
  [ "$status" -eq 0 ] || fail "ctest --preset cuda -L gpu ended with $status"
  say "$(grep 'tests passed' "$log")"
else
  # What is missing, as core/gpu_absence.cc says it.
  missing='has no NVIDIA GPU|driver is missing|hides every GPU|driver shows no GPU|driver runs CUDA'
  says "^gpu +none: .*($missing).*;"
  run 120 "$build/examples/01_mnist_mirrored" --devices gpu:0 --epochs 1
  [ "$status" -ne 0 ] || fail "01_mnist_mirrored --devices gpu:0 ended well without a GPU"
  says "got 'gpu:0', and libtorch sees no GPU here: .*($missing).*; or use cpu:0"
  say "01_mnist_mirrored --devices gpu:0 ends with status $status:"
  sed 's/^/    /' "$log"
  run 600 ctest --preset cuda -L gpu --no-tests=error
  [ "$status" -eq 0 ] || fail "ctest --preset cuda -L gpu ended with $status"
  says 'did not run|Skipped'
  cp "$build/Testing/Temporary/LastTest.log" "$log"
  tests=$(grep -c '^\[strata\] skipped ' "$log") || fail 'no test of GPUs was skipped'
  why=$(grep -Ec "^\[strata\] skipped .*: no GPU: .*($missing)" "$log") || true
  [ "$tests" -eq "$why" ] || fail "of $tests skipped tests $why say why"
  say "$tests tests of GPUs are skipped, each saying why: $(sed -n 's/^\[strata\] skipped .*: no GPU: //p' "$log" | sort -u)"
fi
# The same build computes on CPUs.
run 600 "$build/examples/01_mnist_mirrored" --devices cpu:0 --epochs 1
[ "$status" -eq 0 ] || fail "01_mnist_mirrored --devices cpu:0 ended with $status"
says 'test accuracy 0\.9'
say "passed"
