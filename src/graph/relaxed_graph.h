#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "graph/size_number.h"
#include "graph/tracer.h"

namespace strata::graph {

/// A number of a graph that may depend on sizes.
struct NumberPlace {
  enum class Part {
    kSize,    ///< `sizes[element]` of value `index`.
    kStride,  ///< `strides[element]` of value `index`.
    kOffset,  ///< `offset` of value `index`.
    kTensor,  ///< The one element of the tensor of value `index`, which the step made.
    kNumber,  ///< Argument `argument` of node `index`.
    kInList,  ///< Element `element` of the list that argument `argument` of node `index` is.
  };
  Part part = Part::kSize;
  size_t index = 0;
  size_t argument = 0;
  size_t element = 0;
  bool operator<(const NumberPlace& other) const {
    return std::tie(part, index, argument, element) <
           std::tie(other.part, other.index, other.argument, other.element);
  }
};

/// Compares two recordings of a step with other sizes.
/// @param differing  Gets the places of numbers that differ.
/// @return What else differs, for a message; nothing, if the operators and what they read are the same.
std::optional<std::string> compare_numbers(const Trace& first, const Trace& second,
                                           std::vector<NumberPlace>& differing);

/// A step's graph for many sizes of first dimensions: that of one size, in which the numbers that differ
/// in recordings of other sizes are functions of the sizes (SizeNumber).
/// Source: symbolic shapes, as in tf.function(reduce_retracing=True) and torch.compile(dynamic=True); here
/// without symbols in the program, from examples.
/// Threads: one at a time; `at` any, when no other call is at work.
class RelaxedGraph {
 public:
  /// @param base  At `points.base`. @param others  By symbol: where its size is `points.others[i]`.
  /// @throws Error kFailedPrecondition: they have other operators, or a number is of no known form.
  RelaxedGraph(Trace base, const SizePoints& points, const std::vector<Trace>& others);

  /// Compares a recording, node by node, with the graph for its sizes.
  /// @return How it differs, for a message; then the graph is as it was, and of no use for such sizes.
  std::optional<std::string> check(const Trace& recorded, const RowSizes& sizes);

  /// The graph for these sizes. Null: a number is not whole there. Its host functions are those of all
  /// graphs made here: they run one at a time.
  /// Cost: a copy of the graph.
  std::shared_ptr<const Trace> at(const RowSizes& sizes) const;

 private:
  struct Term {
    NumberPlace place;
    SizeNumber number;
  };

  std::optional<std::string> compare(const Trace& recorded, const RowSizes& sizes);

  Trace base_;
  std::vector<Term> terms_;
};

}  // namespace strata::graph
