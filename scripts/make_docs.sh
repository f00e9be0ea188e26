#!/usr/bin/env bash
# Makes HTML pages of the public headers with doxygen: scripts/make_docs.sh FOLDER. A warning is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?expected the folder to write to}
if ! command -v doxygen >/dev/null; then
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo 'make_docs: doxygen is missing (Debian: apt-get install doxygen)' >&2
    exit 1
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends doxygen >/dev/null
fi
mkdir -p "$folder"
{
  cat docs/doxygen/Doxyfile
  printf 'OUTPUT_DIRECTORY = %s\nPROJECT_NUMBER = %s\n' "$folder" \
    "$(sed -n 's/^project(strata VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"
} | doxygen -
echo "$folder/html/index.html"
