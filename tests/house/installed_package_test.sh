#!/usr/bin/env bash
# An outside project finds the installed tree with find_package(strata), builds against it and trains.
set -euo pipefail
source_dir=$1
build=$2
work=$(mktemp -d "$build/installed_package.XXXXXX")
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
# A moved prefix must do: nothing installed may point back into it.
mv "$work/prefix" "$work/moved"
cmake -S "$source_dir/tests/house/consumer" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/moved" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror"
cmake --build "$work/build"
"$work/build/consumer"

# Neither the headers nor the package may know the source or the build folder.
if grep -rIl -e "$build" --include='*.cmake' --include='*.h' "$work/moved"; then
  echo "the files above name the build folder"
  exit 1
fi
