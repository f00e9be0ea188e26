#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor/update_rule.h"

namespace strata {

/// Keeps and updates the values of variables somewhere else: on parameter servers. Optimizers of a
/// group that has one (VariablePlacement::store) bring it gradients and take values,
/// instead of updating anything themselves.
class ParameterStore {
 public:
  /// A variable's place among the values of an optimizer, in elements.
  struct Entry {
    std::string name;
    std::vector<int64_t> shape;
    int64_t begin = 0;
    bool decays = true;  ///< Weight decay acts on it.
  };

  struct Gradients {
    at::Tensor values;  ///< `[elements]`; 0 if undefined.
    double learning_rate = 0;
    /// The number of examples that the gradients are a mean over: where several processes make a
    /// step together, what each of them counts. 0: gradients are sums, and are added.
    double weight = 0;
    double weight_decay = 0;
    double clip_value = 0;
  };

  /// The values of one optimizer's variables of one dtype, one after the other.
  class Table {
   public:
    virtual ~Table();

    /// By what gradients are multiplied before `step` gets them. @param weight  Gradients::weight.
    virtual double gradient_factor(double /*weight*/) const { return 1; }
    /// Brings gradients, and afterwards the values as they are then. Perhaps waits for other
    /// processes.
    virtual void step(const Gradients& gradients, const at::Tensor& values) = 0;

    /// Whether the last gradients were read on this thread's core: then the next ones should be
    /// written to its caches, and else past them.
    virtual bool reads_on_this_core() const { return false; }
    /// Whether the values of a step should be taken at the end of the next one, which computes
    /// meanwhile: then `begin_step` takes the place of `step`.
    virtual bool pulls_ahead() const { return false; }
    /// Both tensors are the table's until `finish_step`, and no values are written meanwhile.
    virtual void begin_step(const Gradients& gradients, const at::Tensor& values) {
      step(gradients, values);
    }
    virtual void finish_step() {}

    /// The values as they are now, without waiting for other processes.
    virtual void read(const at::Tensor& values) = 0;
    /// How many updates the values have had, by all processes, as far as this one knows.
    virtual int64_t updates() const = 0;
    /// `[elements]`: a slot of the update rule.
    virtual at::Tensor read_slot(int slot) = 0;
    /// From a program that has changed them, where this process is the one that may (the chief);
    /// elsewhere it does nothing.
    virtual void write(const at::Tensor& values, int64_t updates) = 0;
    virtual void write_slot(int slot, const at::Tensor& values) = 0;
  };

  virtual ~ParameterStore();

  virtual int num_servers() const = 0;
  /// Zeros, `[elements]` on the CPU: where gradients and values for `step` best lie. Other memory
  /// will do, too.
  virtual at::Tensor make_buffer(int64_t elements, c10::ScalarType dtype);

  /// Makes a table, or finds it: all processes make the same ones in the same order.
  /// @param entries  Ascending by `begin`; what lies between two counts to the first.
  /// @param values  `[elements]`, contiguous, on the CPU: the first values, if this process is the
  ///   chief; written over with the table's.
  /// @throws Error  kUnimplemented: no such rule there.
  virtual std::unique_ptr<Table> make_table(const tensor::RuleOptions& rule,
                                            const std::vector<Entry>& entries,
                                            const at::Tensor& values) = 0;
};

}  // namespace strata
