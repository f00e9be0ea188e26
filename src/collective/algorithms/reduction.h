#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "strata/collective/reduce_op.h"

namespace strata::collective {

/// Memory that a step reads or writes: values of the dtype, or partial sums.
struct Operand {
  void* data = nullptr;  ///< null: absent
  bool partial = false;
};

/// How values of one dtype are added, as messages need it: block by block, partial sums in the
/// dtype that sums are kept in (float for 16-bit floats, else the same). Follows the fixed tree, to
/// the bits of `reduce_in_order`.
class Reduction {
 public:
  /// @param num_values  What a mean is divided by.
  /// @throws Error kInvalidArgument: no numbers (bool, complex, quantized); a mean of integers.
  Reduction(c10::ScalarType dtype, ReduceOp op, int num_values);

  /// For what only moves bytes.
  static int64_t bytes_of(c10::ScalarType dtype);

  int64_t element_bytes() const { return element_bytes_; }
  int64_t partial_bytes() const { return partial_bytes_; }

  /// target = the tree over sources[0, n).
  /// @param finish  The target is the result: a mean is divided.
  void reduce(const Operand* sources, int n, int64_t size, Operand target, bool finish) const {
    reduce_(*this, sources, n, size, target, finish);
  }

  /// Writes what changes nothing when it joins others: a replica without a value sends it.
  void fill_neutral(void* data, int64_t size) const { fill_(op_, data, size); }

 private:
  template <typename T>
  void use();
  template <typename T>
  static void reduce_as(const Reduction& self, const Operand* sources, int n, int64_t size,
                        Operand target, bool finish);
  static void reduce_halves(const Reduction& self, const Operand* sources, int n, int64_t size,
                            Operand target, bool finish);

  c10::ScalarType dtype_;
  ReduceOp op_;
  int num_values_;
  int64_t element_bytes_ = 0;
  int64_t partial_bytes_ = 0;
  void (*reduce_)(const Reduction&, const Operand*, int, int64_t, Operand, bool) = nullptr;
  void (*fill_)(ReduceOp, void*, int64_t) = nullptr;
};

}  // namespace strata::collective
