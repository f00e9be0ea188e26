#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory_limit.h"
#include "core/proto_message.h"
#include "strata/ps/value.h"

namespace strata::ps {

/// A tensor as it travels; an undefined one has no fields. The contract of this and of values is
/// proto/strata/values.proto.
struct TensorMessage {
  std::optional<uint64_t> dtype = {};  ///< c10::ScalarType's number, which files use, too
  std::vector<int64_t> sizes = {};
  std::optional<std::string_view> data = {};
  bool follows = false;  ///< the data are a transfer of their own

  // Of the value that was read last.
  const char* dtype_problem() const;
  const char* sizes_problem() const;
};

void visit_fields(auto& field, strata::detail::MessageOf<TensorMessage> auto& tensor) {
  field.checked(1, "dtype", tensor.dtype, [&] { return tensor.dtype_problem(); });
  field.checked(2, "sizes", tensor.sizes, [&] { return tensor.sizes_problem(); });
  field.bytes(3, "data", tensor.data);
  field(4, "follows", tensor.follows);
}

/// Values as they travel: a text in Protocol Buffers' format, and the tensors that are too large
/// for it. These go as transfers of their own, in this order; all are dense and on the CPU.
struct EncodedValues {
  std::string text;
  std::vector<at::Tensor> tensors;

  size_t bytes() const {
    size_t sum = text.size();
    for (const at::Tensor& each : tensors) sum += each.nbytes();
    return sum;
  }
};

/// Up to so many bytes of a tensor, and of all tensors together, are in the text.
constexpr size_t kInlineTensor = size_t{16} << 10;
constexpr size_t kInlineTensors = size_t{256} << 10;
/// Of a text: well below what a control message may have.
constexpr size_t kMaxValuesText = size_t{1} << 20;

/// @throws Error  kInvalidArgument: a tensor that is not dense, lists in lists in lists (32 at
///   most), a text of more than kMaxValuesText.
EncodedValues encode_values(std::span<const Value> values);

/// @param follow  Gets the tensors whose bytes are still to come, in order; parts of the values.
/// @param limit  On the bytes of all of them, which are allocated here.
/// @throws Error  kDataLoss: not such bytes; says where. kResourceExhausted: more than `limit`.
std::vector<Value> decode_values(std::string_view bytes, std::vector<at::Tensor>& follow,
                                 size_t limit = strata::detail::memory_limit());

}  // namespace strata::ps
