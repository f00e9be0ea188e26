#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::graph {

/// The number of a value in its graph, from 0.
using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;  ///< An absent (undefined) tensor.

enum class ValueKind {
  kInput,    ///< A tensor that each call brings.
  kCapture,  ///< A tensor of the program that the step reads, such as a weight. A run reads what is
             ///< in it then.
  kState,    ///< A capture that the step writes, too.
  kConstant,  ///< A tensor that the step made from numbers; a run that writes it has its own copy.
  kResult,    ///< Of a node.
};

/// A tensor of the step: what was recorded of it, not its elements.
struct Value {
  ValueKind kind = ValueKind::kResult;
  at::ScalarType dtype = at::kFloat;
  c10::Device device = c10::Device(c10::kCPU);
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  ///< In elements.
  int64_t offset = 0;            ///< Of the first element in its memory, in elements.
  /// The value whose memory it is in: itself, or, for a view, the first value of the memory. A write
  /// to one is a write to all values of a memory.
  ValueId memory = kNoValue;
  /// The node that makes it; -1 for other kinds than kResult.
  int32_t node = -1;
  /// Of captures, states and constants: the tensor itself.
  at::Tensor tensor = {};
};

/// An argument or a result of a node.
struct Operand {
  enum class Kind {
    kValue,   ///< `values[0]`; kNoValue: none was given.
    kValues,  ///< A list of tensors; kNoValue: an undefined one, or an absent one.
    kNumber,  ///< `number`: anything else (a number, a list of them, a dtype, a string, none).
  };
  Kind kind = Kind::kNumber;
  std::vector<ValueId> values = {};
  c10::IValue number = {};
};

/// Work of the program that is no operator: sums over replicas, the update of an optimizer. A run
/// calls it again on the same replica, with this run's tensors.
/// @return As many tensors as were recorded, laid out as was said then.
using HostFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// Where the program called an operator (src/graph/places.h).
struct Place;

/// What a host function belongs to, for those that send steps to other processes.
class STRATA_API HostSubject {
 public:
  virtual ~HostSubject() = default;
};

struct Node {
  /// An operator's name and overload, "aten::add_.Tensor"; a host function's, "strata::all_reduce".
  std::string name;
  /// An operator's as its schema lists them; a host function's tensors, and its numbers. Where some of
  /// its tensors are sparse, and so two, indices and values: how many sparse dimensions each one has.
  std::vector<Operand> arguments = {};
  std::vector<Operand> results = {};  ///< One that is an argument, too, was written in place.
  HostFunction host = {};             ///< Empty: an operator of the dispatcher.
  /// Of a host function: it may hold its arguments after the run.
  bool keeps_arguments = true;
  std::vector<ValueId> written = {};  ///< Arguments whose memory it writes.
  /// Of a host function: the object that it is a call of, such as an optimizer.
  std::weak_ptr<HostSubject> subject = {};
  /// For messages. Null: it is not known, such as in a graph from a file.
  std::shared_ptr<const Place> place = {};
};

/// A step as operators below autograd: forward, backward and update alike. Nodes are in the order of
/// the program, and each one's arguments are inputs, captures, constants or results of earlier ones.
/// Captured tensors stay alive with the graph.
/// Threads: any may read it.
struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;   ///< In the order of the call's tensors; kNoValue: undefined.
  std::vector<ValueId> outputs;  ///< In the order of the result's tensors; kNoValue: undefined.
};

/// One line a node: `%7 = aten::addmm(%2, %0, %5) : float [8, 10]`, after the inputs and captures.
STRATA_API std::ostream& operator<<(std::ostream& out, const Graph& graph);
STRATA_API std::string to_string(const Graph& graph);

struct PrintOptions {
  /// Behind each line where the program called the operator: a source line if it has debug information (-g1), else
  /// its function. Takes 0.3 s once, to read the symbols of the process.
  bool places = false;
};
STRATA_API std::string to_string(const Graph& graph, const PrintOptions& options);

/// For Graphviz: `dot -Tsvg`.
STRATA_API std::string to_dot(const Graph& graph);

/// Checks that the graph holds together: that numbers of values exist, that each is made before it is
/// read, that operators exist and get as many arguments as their schemas have. For graphs from outside.
/// @throws Error  kInvalidArgument: names the node and what is wrong with it.
STRATA_API void check(const Graph& graph);

}  // namespace strata::graph
