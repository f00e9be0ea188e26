#!/usr/bin/env bash
# Writes include/strata/strata.h anew: every public header but sync_batch_norm.h, which is a module of libtorch's and brings
# 8 s of its headers into a file, and those of graphs as such (1.5 s). `make format` calls it; a test compares.
set -euo pipefail
cd "$(dirname "$0")/../include"
{
  printf '#pragma once\n\n'
  printf '// Everything, for programs, but what takes long to compile: SyncBatchNorm (a torch::nn module, whose headers\n'
  printf '// take 8 s; strata/runtime/sync_batch_norm.h), and graphs as such, to be looked at, exported or loaded (1.5 s;\n'
  printf '// strata/graph/graph.h, inference.h, onnx.h, saved_graph.h). Include of libtorch what the program uses of\n'
  printf '// it: <torch/torch.h>, or one module or function (<ATen/ops/relu.h>).\n'
  find strata -mindepth 2 -name '*.h' ! -name sync_batch_norm.h ! -path strata/graph/graph.h \
    ! -path strata/graph/inference.h ! -path strata/graph/onnx.h ! -path strata/graph/saved_graph.h | LC_ALL=C sort | sed 's|.*|#include "&"|'
} >strata/strata.h
