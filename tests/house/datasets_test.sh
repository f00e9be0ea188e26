#!/usr/bin/env bash
# The MNIST files are whole, and are the originals inside.
set -euo pipefail
cd "$1/datasets/mnist"
sha256sum --check --strict SHA256SUMS
[ "$(ls -- *.gz | wc -l)" -eq 4 ]
checked=0
while IFS='|' read -r _ file sum _; do
  file=$(tr -d ' `' <<<"$file")
  sum=$(tr -d ' `' <<<"$sum")
  case $file in *-ubyte) ;; *) continue ;; esac
  [ "$(gzip -dc "$file.gz" | md5sum | cut -d' ' -f1)" = "$sum" ] || {
    echo "$file is not the original"
    exit 1
  }
  checked=$((checked + 1))
done <README.md
[ "$checked" -eq 4 ]
