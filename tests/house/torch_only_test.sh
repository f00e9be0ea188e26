#!/usr/bin/env bash
# With nothing but libtorch and the tool chain, a program that trains and the launcher build. It only asks whether: one
# compilation a library, without optimization and with precompiled headers, takes a fraction of the time. Libraries that
# these two do not link have no optional part: the build whose test this is has compiled them as they are.
set -euo pipefail
source_dir=$1
build=$2
work=$(mktemp -d "$(dirname "$build")/torch_only.XXXXXX")
trap 'rm -rf "$work"' EXIT

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
torch_root=$(cached TORCH_ROOT)
: "${torch_root:=$(cmake -P "$source_dir/cmake/FindStrataTorch.cmake")}"
off=()
for package in ZLIB JPEG PNG OpenSSL MPI CLI11 GTest nlohmann_json; do off+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
cmake -S "$source_dir" -B "$work" -G Ninja "${off[@]}" -DSTRATA_BENCHMARKS=OFF \
  -DTORCH_ROOT="$torch_root" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="$(cached CMAKE_CXX_FLAGS)" -DCMAKE_CXX_FLAGS_RELEASE=-O0 \
  -DCMAKE_COMPILE_WARNING_AS_ERROR="$(cached CMAKE_COMPILE_WARNING_AS_ERROR)" \
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 -DSTRATA_PCH=ALL
cmake --build "$work" --target strata_launcher strata_example_01_mnist_mirrored
