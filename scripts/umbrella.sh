#!/usr/bin/env bash
# Writes include/strata/strata.h anew: every public header but sync_batch_norm.h, which is a module of libtorch's and brings
# 8 s of its headers into a file. `make format` calls it; a test compares.
set -euo pipefail
cd "$(dirname "$0")/../include"
{
  printf '#pragma once\n\n'
  printf '// Everything, for programs, but SyncBatchNorm: it is a torch::nn module, and libtorch'"'"'s headers for\n'
  printf '// these take 8 s of a compilation. Include strata/runtime/sync_batch_norm.h for it, and of libtorch\n'
  printf '// what the program uses of it: <torch/torch.h>, or one module or function (<ATen/ops/relu.h>).\n'
  find strata -mindepth 2 -name '*.h' ! -name sync_batch_norm.h | LC_ALL=C sort | sed 's|.*|#include "&"|'
} >strata/strata.h
