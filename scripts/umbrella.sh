#!/usr/bin/env bash
# Writes include/strata/strata.h anew: every public header. `make format` calls it; a test compares.
set -euo pipefail
cd "$(dirname "$0")/../include"
{
  printf '#pragma once\n\n// Everything, for programs. Where compile time counts, include what you use.\n'
  find strata -mindepth 2 -name '*.h' | LC_ALL=C sort | sed 's|.*|#include "&"|'
} >strata/strata.h
