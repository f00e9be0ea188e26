#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory_limit.h"
#include "strata/ps/value.h"

namespace strata::ps {

/// Values as they travel: a text in Protocol Buffers' format, written by hand as
/// cluster/control_message.h says, and the tensors that are too large for it. These go as transfers
/// of their own, in this order; all are dense and on the CPU.
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
