// A saved graph, which may come from anywhere: everything is checked before weights get memory.
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "core/checked_size.h"
#include "core/crc32c.h"
#include "core/memory_limit.h"
#include "graph/saved/known_operators.h"
#include "graph/saved/saved_messages.h"
#include "graph/saved/saved_parts.h"
#include "graph/untrusted/call_rules.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/graph/saved_graph.h"

namespace strata::graph {
namespace saved {
namespace {

constexpr detail::WireText kLoadText{.call = "[graph] load_graph", .expected = "a saved graph"};
constexpr size_t kStartBytes = 16;  // the magic and the head's size

class Loading {
 public:
  Loading(const std::string& path, const ReadLimits& limits)
      : path_(path), limits_(limits), file_(file_system_of(path).open(path)) {}

  InferenceGraph read() {
    const std::string head = read_head();
    detail::WireReader reader(head, head, kLoadText);
    read_message(saved_, reader);
    refuse_unless(saved_.version <= kVersion, ErrorCode::kUnimplemented,
                  str_cat("version ", saved_.version, "; expected ", kVersion,
                          " at most: a later strata wrote it"));
    require(saved_.version == kVersion, "no version");
    count_parts();
    parts_.emplace(saved_.values.size(),
                   [this](bool holds, const char* what) { require(holds, what); });
    InferenceGraph result;
    result.graph.name = saved_.name;
    result.batch = saved_.batch;
    require(saved_.batch >= 0, "a negative batch");
    for (size_t i = 0; i < saved_.values.size(); ++i) result.graph.values.push_back(value(i));
    for (const SavedNode& each : saved_.nodes) result.graph.nodes.push_back(parts_->node(each));
    result.graph.inputs = parts_->ids(saved_.inputs);
    result.graph.outputs = parts_->ids(saved_.outputs);
    require(weights_end_ == file_->size() - kChecksumBytes,
            "weights of another size than its values'");
    check_graph(result.graph);
    for (const SavedTerm& each : saved_.terms) result.terms.push_back(term(each, result.graph));
    check_checksum();
    read_weights(result.graph);
    return result;
  }

 private:
  struct StoredWeight {
    size_t value;
    uint64_t begin;  // in the file
    uint64_t bytes;
  };

  void refuse_unless(bool holds, ErrorCode code, const std::string& what) const {
    if (!holds) throw Error(code, str_cat("[graph] load_graph: ", path_, ": got ", what));
  }
  void require(bool holds, const std::string& what) const {
    refuse_unless(
        holds, ErrorCode::kDataLoss,
        what + "; expected a file of save_graph: this one was damaged, or is another kind");
  }

  void read_bytes(uint64_t begin, void* to, size_t size) const {
    const std::span<std::byte> bytes(static_cast<std::byte*>(to), size);
    require(file_->read(begin, bytes) == size, "fewer bytes than when it was opened");
  }

  std::string read_head() {
    const uint64_t size = file_->size();
    require(size >= kStartBytes + kChecksumBytes, str_cat(size, " bytes"));
    std::string start(kStartBytes, '\0');
    read_bytes(0, start.data(), start.size());
    require(start.starts_with(kMagic), "another beginning");
    detail::WireReader numbers(std::string_view(start).substr(kMagic.size()), start, kLoadText);
    const auto head = numbers.fixed<uint64_t>();
    require(head <= size - kStartBytes - kChecksumBytes, "a head beyond its end");
    refuse_unless(head / 2 <= limits_.parts, ErrorCode::kResourceExhausted,
                  str_cat("a head of ", head, " bytes; expected fewer than ReadLimits::parts (",
                          limits_.parts, ") allow"));
    weights_end_ = kStartBytes + head;
    std::string bytes(head, '\0');
    read_bytes(kStartBytes, bytes.data(), bytes.size());
    return bytes;
  }

  void count_parts() const {
    uint64_t parts = saved_.values.size() + saved_.nodes.size() + saved_.terms.size();
    for (const SavedNode& node : saved_.nodes) parts += node.arguments.size() + node.results.size();
    refuse_unless(
        parts <= limits_.parts, ErrorCode::kResourceExhausted,
        str_cat(parts, " parts; expected ", limits_.parts, " at most (ReadLimits::parts)"));
  }

  Value value(size_t i) {
    const SavedValue& saved = saved_.values[i];
    const std::string where = str_cat("value ", i, " with ");
    const auto kind = static_cast<ValueKind>(saved.kind);
    const bool weight = kind == ValueKind::kCapture || kind == ValueKind::kConstant;
    require(saved.kind < 5 && kind != ValueKind::kState && saved.stored == weight,
            where + "an unknown kind");
    require(is_known_dtype(saved.dtype), where + "an unknown dtype");
    require(saved.sizes.size() == saved.strides.size() &&
                static_cast<int64_t>(saved.sizes.size()) <= kMostDimensions,
            where + "unequal numbers of sizes and strides, or too many");
    const auto dtype = static_cast<at::ScalarType>(saved.dtype);
    const auto elements = detail::checked_product<int64_t>(saved.sizes);
    const auto bytes = elements ? detail::checked_product<int64_t>(
                                      {*elements, static_cast<int64_t>(c10::elementSize(dtype))})
                                : std::nullopt;
    require(bytes.has_value(), where + "sizes that are negative or too large");
    require(std::ranges::all_of(saved.strides, [](int64_t each) { return each >= 0; }) &&
                saved.offset >= 0,
            where + "a negative stride or offset");
    const ValueId memory = parts_->id(saved.memory);
    require(memory != kNoValue && memory <= static_cast<int64_t>(i) &&
                saved_.values[static_cast<size_t>(memory)].memory == memory,
            where + "a memory that is none");
    require(saved.node >= -1 && saved.node < static_cast<int64_t>(saved_.nodes.size()),
            where + "a node that does not exist");
    Value value{.kind = kind,
                .dtype = dtype,
                .sizes = saved.sizes,
                .strides = saved.strides,
                .offset = saved.offset,
                .memory = memory,
                .node = static_cast<int32_t>(saved.node)};
    if (weight) {
      require(is_dense(saved.sizes, saved.strides) && saved.offset == 0 &&
                  memory == static_cast<int64_t>(i),
              where + "elements that are not dense");
      add_weight(i, static_cast<uint64_t>(*bytes));
      value.tensor = at::empty({0});  // until all is checked
    }
    return value;
  }

  /// Each element has a place of its own, without gaps.
  static bool is_dense(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
    if (std::ranges::count(sizes, 0) > 0) return true;
    std::vector<size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](size_t d) { return std::pair(strides[d], sizes[d]); });
    int64_t expected = 1;
    for (const size_t d : order) {
      if (sizes[d] == 1) continue;
      if (strides[d] != expected) return false;
      expected *= sizes[d];
    }
    return true;
  }

  void add_weight(size_t i, uint64_t bytes) {
    const uint64_t end = file_->size() - kChecksumBytes;
    require(bytes <= end - weights_end_, str_cat("value ", i, " with elements beyond its end"));
    weights_.push_back({.value = i, .begin = weights_end_, .bytes = bytes});
    weights_end_ += bytes;
  }

  void check_graph(const Graph& graph) const {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const std::string fault = fault_of_node(graph.nodes[n]);
      refuse_unless(fault.empty(), ErrorCode::kUnimplemented,
                    str_cat("node ", n, " (", graph.nodes[n].name, "), which ", fault));
      for (const ValueId id : graph.nodes[n].written) {
        require(id != kNoValue, "a write to no value");
        const ValueId memory = graph.values[static_cast<size_t>(id)].memory;
        require(graph.values[static_cast<size_t>(memory)].kind == ValueKind::kResult,
                "a write to an input or a weight");
      }
    }
    for (const ValueId id : graph.inputs) {
      require(id == kNoValue || graph.values[static_cast<size_t>(id)].kind == ValueKind::kInput,
              "an input of another kind");
    }
    try {
      check(graph);
    } catch (const Error& error) {
      throw Error(ErrorCode::kDataLoss, str_cat("[graph] load_graph: ", path_, ": ", error.what()));
    }
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const std::string fault = untrusted::fault_of_sizes(graph, n);
      require(fault.empty(), str_cat("node ", n, " (", graph.nodes[n].name, ") with ", fault));
    }
  }

  BatchTerm term(const SavedTerm& saved, const Graph& graph) const {
    using Part = BatchTerm::Part;
    constexpr int64_t kLargest = int64_t{1} << 31;
    require(saved.part <= static_cast<uint64_t>(Part::kNumber) && saved.index >= 0 &&
                saved.argument >= 0 && saved.element >= 0 && saved_.batch > 0 &&
                saved.per_example > -kLargest && saved.per_example < kLargest,
            "a term that is none");
    const auto part = static_cast<Part>(saved.part);
    const auto index = static_cast<size_t>(saved.index);
    size_t elements = 1;
    if (part == Part::kNumber) {
      require(index < graph.nodes.size() &&
                  static_cast<size_t>(saved.argument) < graph.nodes[index].arguments.size(),
              "a term of no argument");
      const c10::IValue& number =
          graph.nodes[index].arguments[static_cast<size_t>(saved.argument)].number;
      require(number.isInt() || number.isIntList(), "a term of no integer");
      if (number.isIntList()) elements = number.toIntVector().size();
    } else {
      require(index < graph.values.size() && !graph.values[index].tensor.defined(),
              "a term of no value");
      if (part != Part::kOffset) elements = graph.values[index].sizes.size();
    }
    require(static_cast<size_t>(saved.element) < elements, "a term of no element");
    return {.part = part,
            .index = static_cast<int32_t>(saved.index),
            .argument = static_cast<int32_t>(saved.argument),
            .element = static_cast<int32_t>(saved.element),
            .per_example = saved.per_example};
  }

  void check_checksum() const {
    const uint64_t end = file_->size() - kChecksumBytes;
    std::string part(1 << 16, '\0');
    uint32_t checksum = 0;
    for (uint64_t at = 0; at < end; at += part.size()) {
      const auto size = static_cast<size_t>(std::min<uint64_t>(part.size(), end - at));
      read_bytes(at, part.data(), size);
      checksum = crc32c(part.data(), size, checksum);
    }
    read_bytes(end, part.data(), kChecksumBytes);
    detail::WireReader reader(std::string_view(part).substr(0, kChecksumBytes), part, kLoadText);
    require(reader.fixed<uint32_t>() == checksum, "another checksum than that of its bytes");
  }

  void read_weights(Graph& graph) const {
    uint64_t bytes = 0;
    for (const StoredWeight& weight : weights_) bytes += weight.bytes;
    refuse_unless(bytes <= detail::memory_limit(), ErrorCode::kResourceExhausted,
                  str_cat("weights of ", bytes, " bytes; expected ", detail::memory_limit(),
                          " at most, which this machine has"));
    for (const StoredWeight& weight : weights_) {
      Value& value = graph.values[weight.value];
      value.tensor = at::empty_strided(value.sizes, value.strides, at::dtype(value.dtype));
      read_bytes(weight.begin, value.tensor.mutable_data_ptr(), weight.bytes);
    }
  }

  const std::string& path_;
  const ReadLimits& limits_;
  std::unique_ptr<ReadableFile> file_;
  SavedGraph saved_;
  std::optional<PartsReader> parts_;  // of saved_, once it is read
  std::vector<StoredWeight> weights_;
  uint64_t weights_end_ = 0;  // of those that were found so far
};

}  // namespace
}  // namespace saved

LoadedGraph load_graph(const std::string& path, const ReadLimits& limits) {
  return LoadedGraph(saved::Loading(path, limits).read());
}

}  // namespace strata::graph
