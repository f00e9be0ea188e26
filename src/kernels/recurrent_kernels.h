#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

// Plain data only: see matmul_kernels.h.

namespace strata::kernels {

/// A recurrent layer's weights [units, gates * units]: element (r, c) is at
/// data[r * row_stride + c * column_stride]. The gates' columns begin at first[gate].
struct RecurrentWeights {
  const float* data;
  int64_t row_stride;
  int64_t column_stride;
  int64_t units;
  int64_t gates;
  int64_t first[4];
};

/// Sequences as rows of all steps, one step behind the other: step t has sizes[t] rows, each of
/// another row of the batch.
struct RecurrentSteps {
  int64_t batch;
  int64_t count;
  const int64_t* sizes;
  const int64_t* rows;      ///< The batch's row of each; null: a step's i-th is the batch's i-th.
  const int64_t* previous;  ///< Of each row, the row of its state before in `states`, `cells`.
};

/// The inputs' part of the gates' sums, [*, gates * units]: maybe what the gates replace.
struct InputSums {
  const float* data;
  const int64_t* rows;  ///< Of each row, where its sums are; null: at its own place.

  int64_t row_of(int64_t row) const { return rows == nullptr ? row : rows[row]; }
};

/// `states` and `cells` [batch + rows, units] begin with the first states of the batch.
struct LstmForward {
  RecurrentSteps steps;
  int64_t units;
  const float* packed;
  InputSums inputs;
  float* gates;  ///< [rows, 4 * units] i, f, g, o.
  float* states;
  float* cells;
};

struct LstmBackward {
  RecurrentSteps steps;
  int64_t units;
  const float* packed;
  const float* gates;
  const float* cells;
  const float* dy;  ///< [rows, units], or null.
  float* dh;        ///< [batch, units]: of the last states, replaced by those of the first.
  float* dc;
  float* dgates;
  bool wants_first;  ///< Else dh is unspecified in the end.
};

/// Keras's reset_after: the reset gate r takes effect behind the product.
struct GruForward {
  RecurrentSteps steps;
  int64_t units;
  int64_t first[3];  ///< Where the columns of z, r and the candidate begin.
  const float* packed;
  const float* recurrent_bias;  ///< [3 * units], or null.
  InputSums inputs;
  float* gates;  ///< [rows, 3 * units], as LstmForward's.
  float* inner;  ///< [rows, units] the state's part of the candidate.
  float* states;
};

struct GruBackward {
  RecurrentSteps steps;
  int64_t units;
  int64_t first[3];
  const float* packed;
  const float* gates;
  const float* inner;
  const float* states;
  const float* dy;
  float* dh;
  float* dinputs;  ///< [rows, 3 * units] of the inputs' part of the sums.
  float* dstates;  ///< Of the state's part.
  bool wants_first;
};

/// Each of a product's sums is a chain of fused multiply-adds over 128 elements, and such chains
/// are added in order; so bits depend on a row's own numbers alone, and are the same in all
/// instruction sets. Calls take rows [begin, end) of the batch through all steps.
struct RecurrentKernels {
  int64_t (*packed_floats)(const RecurrentWeights& weights);  ///< Aligned to 64 bytes.
  void (*pack)(const RecurrentWeights& weights, float* out);
  int64_t (*transposed_floats)(const RecurrentWeights& weights);
  void (*pack_transposed)(const RecurrentWeights& weights, float* out);
  void (*lstm_forward)(const LstmForward& call, int64_t begin, int64_t end);
  void (*lstm_backward)(const LstmBackward& call, int64_t begin, int64_t end);
  void (*gru_forward)(const GruForward& call, int64_t begin, int64_t end);
  void (*gru_backward)(const GruBackward& call, int64_t begin, int64_t end);
};

const RecurrentKernels& recurrent_kernels(CpuIsa isa);  // in recurrent.cc
const RecurrentKernels& recurrent_kernels_baseline();
const RecurrentKernels& recurrent_kernels_avx2();
const RecurrentKernels& recurrent_kernels_avx512();

}  // namespace strata::kernels
