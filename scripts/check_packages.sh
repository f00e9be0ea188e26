#!/usr/bin/env bash
# Nothing in the packages may name a folder of the machine that built them: scripts/check_packages.sh FOLDER
set -euo pipefail
folder=$1
source_dir=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
for package in "$folder"/*.deb "$folder"/*.whl; do
  tree=$work/$(basename "$package")
  mkdir "$tree"
  case $package in
  *.deb) dpkg-deb --extract "$package" "$tree" ;;
  *.whl) python3 -m zipfile --extract "$package" "$tree" ;;
  esac
  for place in "$source_dir" "$HOME/"; do
    if files=$(grep -rlF -e "$place" "$tree"); then
      printf '%s: these files name %s:\n%s\n' "$package" "$place" "$files" >&2
      status=1
    fi
  done
done
exit "$status"
