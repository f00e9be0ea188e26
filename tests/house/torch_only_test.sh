#!/usr/bin/env bash
# With nothing but libtorch and the tool chain, a program that trains and the launcher build. Libraries that are compiled from
# the same sources, with the same definitions, as in the build whose test this is are taken from there; the others are compiled
# as one file each, without optimization and with precompiled headers: it only asks whether.
set -euo pipefail
source_dir=$1
build=$2
work=$(mktemp -d "$(dirname "$build")/torch_only.XXXXXX")
trap 'rm -rf "$work"' EXIT

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
torch_root=$(cached TORCH_ROOT)
: "${torch_root:=$(cmake -P "$source_dir/cmake/FindStrataTorch.cmake")}"
off=()
for package in ZLIB JPEG PNG OpenSSL ucx MPI CLI11 GTest nlohmann_json; do off+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
cmake -S "$source_dir" -B "$work" -G Ninja "${off[@]}" -DSTRATA_BENCHMARKS=OFF \
  -DTORCH_ROOT="$torch_root" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="$(cached CMAKE_CXX_FLAGS)" -DCMAKE_CXX_FLAGS_RELEASE=-O0 \
  -DCMAKE_COMPILE_WARNING_AS_ERROR="$(cached CMAKE_COMPILE_WARNING_AS_ERROR)" \
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 -DCMAKE_OPTIMIZE_DEPENDENCIES=ON
cd "$work"

# The archives of the program's link, and which of them are others here.
program=strata_example_01_mnist_mirrored
link=$(ninja -t commands "$program" | tail -n 1)
read -ra words <<<"$link"
others=()
for word in "${words[@]}"; do
  case $word in src/*.a)
    compiled_from=compiled_from/$(basename "$word")
    if cmp -s <(sed "s#$build#BUILD#g" "$build/$compiled_from") <(sed "s#$work#BUILD#g" "$compiled_from"); then
      mkdir -p "$(dirname "$word")"
      ln -sf "$build/$word" "$word"
    else
      others+=("$word")
    fi
    ;;
  esac
done
echo "compiled here: ${others[*]}"
[ "${#others[@]}" -gt 0 ]  # or nothing was left out
objects=$(printf '%s\n' "${words[@]}" | grep '\.cc*x*\.o$')
ninja strata_launcher "${others[@]}" $objects
eval "$link"
[ -x examples/01_mnist_mirrored ]
